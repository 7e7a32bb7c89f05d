// An edit as a diff, while it is written.
//
// The old text stands there first. As the new one comes, old lines turn into equal ones or removed
// ones where they stand, and new ones are put between them. No line that is shown goes away, except
// that a new one joins the old one that it turns out to equal.

import { copyAsText } from "./copying.js";
import { DiffLine, OpenLine, Reader } from "./diff-lines.js";
import { make, setAttribute } from "./dom.js";
import { Following } from "./following.js";
import { highlighterFor } from "./highlight.js";
import { FAILED, ROUGH } from "./line-diff.js";
import { RowList } from "./lines.js";
import { paint } from "./painting.js";
import { StreamingDiff } from "./streaming-diff.js";

/** @typedef {import("./line-diff.js").LineChange} LineChange */

/**
 * @typedef {object} Edit
 * @property {string} before
 * @property {string} after
 * @property {boolean} [isBeforeDone] whether no more of it comes
 * @property {boolean} [isAfterDone]
 * @property {string | null} [language]
 */

export class DiffView {
  /**
   * @param {object} options
   * @param {string} options.label
   * @param {string | null} [options.language]
   * @param {(view: DiffView) => void} [options.onPainting] told when there is more to paint, and
   *   when not
   */
  constructor({ label, language = null, onPainting = () => {} }) {
    this.element = make("div", { class: "diff scroll", role: "group", tabindex: 0 });
    this.#following = new Following(this.element);
    copyAsText(this.element);
    this.#page = new Page(language);
    this.#language = language;
    this.#onPainting = onPainting;
    this.label = label;
    this.element.append(this.#page.rows.element);
  }

  /** Whether all of both texts is there. */
  isPainted = true;
  #following;
  #onPainting;
  #page;
  #language;
  #isFresh = true;

  /** @param {string} label */
  set label(label) {
    setAttribute(this.element, "aria-label", label);
  }

  /** How many characters are not there yet. */
  get left() {
    return this.isPainted ? 0 : this.#page.old.left + this.#page.new.left + 1;
  }

  /** Go back to the beginning, unless a reader has chosen a place. */
  toStart() {
    this.#following.toStart();
  }

  /**
   * Show an edit; of one that has grown, what is new.
   * @param {Edit} edit
   */
  show({ before, after, isBeforeDone = true, isAfterDone = true, language = this.#language }) {
    const page = this.#page;
    const isSame = page.old.text === before && page.new.text === after;
    const isAsDone = page.old.isDone === isBeforeDone && page.new.isDone === isAfterDone;
    if (!this.#isFresh && isSame && isAsDone && language === this.#language) return;
    if (this.#isFresh && isAfterDone) this.#following.isFollowing = false;
    this.#isFresh = false;
    const isMore =
      page.old.mayBecome(before, isBeforeDone) && page.new.mayBecome(after, isAfterDone);
    // What was shown before the old text was known is no diff.
    const isTooEarly = page.isEarly && isBeforeDone;
    if (!isMore || isTooEarly || language !== this.#language) {
      this.#language = language;
      this.#page = new Page(language);
    }
    this.#page.old.grow(before, isBeforeDone);
    this.#page.new.grow(after, isAfterDone);
    paint(this.#paint);
    this.isPainted = false;
    this.#onPainting(this);
  }

  /** @param {() => boolean} hasTime */
  #paint = (hasTime) => {
    const page = this.#page;
    const isShown = page.rows.element.parentNode === this.element;
    try {
      do {
        if (page.step()) continue;
        page.showOpen();
        if (!isShown) this.element.replaceChildren(page.rows.element);
        this.#following.grown();
        this.isPainted = true;
        this.#onPainting(this);
        return true;
      } while (hasTime());
    } catch (error) {
      if (page.isPlain) throw error;
      reportError(error);
      this.#page = new Page(this.#language, true);
      this.#page.old.grow(page.old.text, page.old.isDone);
      this.#page.new.grow(page.new.text, page.new.isDone);
    }
    if (isShown) this.#following.grown();
    return false;
  };
}

/** What is shown of one edit, from its beginning on. */
class Page {
  /**
   * @param {string | null} language
   * @param {boolean} [isPlain] whether both texts are shown one after the other, since to compare
   *   them has failed
   */
  constructor(language, isPlain = false) {
    this.isPlain = isPlain;
    if (isPlain) this.#remark(FAILED);
    this.#oldColours = highlighterFor(language);
    this.#newColours = highlighterFor(language);
  }

  rows = new RowList();
  old = new Reader();
  new = new Reader();
  isEarly = false; // new lines are shown although the old text is not known yet
  #oldColours;
  #newColours;
  #isOver = false;
  /** @type {StreamingDiff | null} */
  #diff = null;
  /** @type {string[]} */
  #texts = [];
  /** @type {DiffLine[]} */
  #lines = [];
  #at = 0;
  /** @type {DiffLine[]} */
  #held = [];
  #oldOpen = new OpenLine("pending");
  #newOpen = new OpenLine("added");

  /** Do the next bit of what there is to do; false if there is nothing. */
  step() {
    const old = this.old.next();
    if (old !== null) {
      this.#takeOld(old);
      return true;
    }
    const next = this.new.next();
    if (!this.old.isDone) {
      if (next === null) return false;
      this.isEarly = true;
      this.rows.insert(new DiffLine(next, "added", this.#newColours).rows, this.#cursor());
      return true;
    }
    if (this.isPlain) {
      if (next !== null) this.rows.insert(new DiffLine(next, "added", this.#newColours).rows, null);
      return next !== null;
    }
    this.#diff ??= new StreamingDiff(this.#texts);
    if (next !== null) {
      this.#takeNew(this.#diff, next);
      return true;
    }
    if (this.new.isDone && !this.#isOver) {
      this.#isOver = true;
      this.#newOpen.remove();
      this.#apply(this.#diff.finish());
      this.#note();
    }
    return false;
  }

  /** Show the lines that more may come for. */
  showOpen() {
    if (!this.isPlain) this.#lines[this.#at]?.turn("pending");
    if (!this.old.isDone) {
      this.#oldOpen.show(this.old.open, this.#oldColours, (row) => this.rows.append(row));
    }
    const text = this.new.open;
    if (this.new.isDone || (text === "" && this.new.text === "")) return;
    if (this.#diff && this.#held.length === 0 && this.#texts[this.#at]?.startsWith(text)) {
      this.#newOpen.remove();
      this.#lines[this.#at]?.rows[0]?.classList.add("open");
    } else if (text === "") {
      this.#newOpen.remove();
    } else {
      const before = this.#cursor();
      this.#newOpen.show(text, this.#newColours, (row) => this.rows.insert([row], before));
    }
  }

  /** Give the row before which new lines go. */
  #cursor() {
    return this.#lines[this.#at]?.rows[0] ?? this.#oldOpen.rows[0] ?? null;
  }

  /** @param {string} text */
  #takeOld(text) {
    this.#oldOpen.remove();
    this.#texts.push(text);
    const line = new DiffLine(text, this.isPlain ? "removed" : "pending", this.#oldColours);
    if (!this.isPlain) this.#lines.push(line);
    this.rows.insert(line.rows, null);
  }

  /**
   * @param {StreamingDiff} diff
   * @param {string} text
   */
  #takeNew(diff, text) {
    this.#newOpen.remove();
    const isAhead = diff.held === 0;
    const changes = diff.add(text);
    const line = new DiffLine(text, "added", this.#newColours);
    if (isAhead && changes[0]?.kind === "same") {
      this.#lines[this.#at++]?.turn("same");
      return;
    }
    this.rows.insert(line.rows, this.#cursor());
    this.#held.push(line);
    this.#apply(changes);
  }

  /**
   * Show what has become certain: in the order of the changes, which is that of a diff.
   * @param {LineChange[]} changes
   */
  #apply(changes) {
    const count = changes.filter(({ kind }) => kind !== "added").length;
    const behind = this.#lines[this.#at + count]?.rows[0] ?? null;
    const hasToMove = count > 0 && this.#held.length > 0;
    for (const { kind } of changes) {
      const line = kind === "added" ? this.#held.shift() : this.#lines[this.#at++];
      if (line === undefined) throw new Error("the diff has more lines than the texts");
      line.turn(kind);
      if (kind === "same") for (const row of this.#held.shift()?.rows ?? []) row.remove();
      if (hasToMove) this.rows.insert(line.rows, behind);
    }
  }

  /** Say it if more may be equal, or if the texts differ in what no line shows. */
  #note() {
    if (this.#diff?.isRough) this.#remark(ROUGH);
    const [before, after] = [this.old.text, this.new.text].map((text) => text.endsWith("\n"));
    if (before === after || this.old.text === "" || this.new.text === "") return;
    this.#remark(`Only the ${before ? "old" : "new"} text ends with a newline.`);
  }

  /** @param {string} text */
  #remark(text) {
    this.rows.append(make("div", { class: "row remark", text }));
  }
}
