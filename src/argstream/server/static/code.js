import {
  button, Chunks, copyAsText, copyText, countOf, firstIndex, inOneNode, linesOf, make,
  paint, selectedRange, setAttribute, setInOrder, setText, TailFollower, visible, visibleLine,
} from "./dom.js";
/** @import {
 *   Mode, ViewOptions, Step, Token, Range, Row, LineChange, State, Span, Rules
 * } from "./types.js" */

// Code and diffs: views with line numbers, colours and a toolbar; line, word and streaming diffs;
// a highlighter. A view paints in slices, and the work for a new piece of text does not depend on
// the length of the text before it.

/** The texts of these views. `<tool-call>` lets its `labels` replace them. */
export const codeTexts = {
  copy: "Copy",
  copied: "Copied",
  copyFailed: "Couldn't copy",
  wrap: "Wrap",
  showAll: "Show all {size}",
  expand: "Expand",
  unchanged: "⋯ {size}",
  noNewline: "No newline at end of file ({side})",
  roughDiff:
    "Too many differences for an exact diff; some unchanged lines may be shown as replaced.",
};

const PREVIEW_ROWS = 12;
const PREVIEW_CHARACTERS = 3000;
const SHORT = 20; // lines up to which a text needs no preview

/** Replaces `{name}` in one of the texts. @param {string} text
 * @param {Record<string, string>} by */
export function fill(text, by) {
  return text.replace(/\{(\w+)\}/g, (whole, name) => by[name] ?? whole);
}

/**
 * Makes the rows of a view, in steps. `step` returns false when there are no more for now; `finish`
 * then shows what may still grow. `digits`: of the largest line number; `left`: characters that
 * have no row yet; `rest`: the total size if rows are hidden, else empty.
 * @typedef {{ rows: RowList, digits: number, left: number, rest: string,
 *   counts?: { added: number, removed: number }, step: (isExpanded: boolean) => boolean,
 *   finish: () => void }} RowSource
 */

/** A toolbar, a box with rows, and a button that shows the rest of them. */
export class View {
  /** @param {ViewOptions & { onPainting?: (view: View) => void }} options `onPainting` is called
   * when there is more to paint, and when all of it is painted
   * @param {string} kind a class */
  constructor({ label, title = "", language = null, ...more }, kind = "diff") {
    const { texts = codeTexts, isNumbered = true, onPainting = () => {} } = more;
    this.texts = texts;
    this.language = language;
    this.#onPainting = onPainting;
    const copy = button(texts.copy, "plain", () => copyText(copy, this.text, texts));
    const wrap = button(texts.wrap, "plain", () => {
      wrap.ariaPressed = String(!this.box.classList.toggle("unwrapped"));
      this.#setTabStop();
    });
    wrap.ariaPressed = "true";
    this.#more = button("", "plain more", () => this.#expand());
    this.#more.hidden = true;
    const larger = button(texts.expand, "plain", () => this.#enlarge());
    larger.ariaPressed = "false";
    const tools = make("div", { class: "tools" }, this.#title, this.meta, wrap, copy, larger);
    this.box = make("div", { class: kind, role: "group" });
    this.box.classList.toggle("numbered", isNumbered);
    this.element = make("div", { class: "block", part: "code" }, tools, this.box, this.#more);
    this.element.addEventListener("toggle", (event) => {
      const isOpen = /** @type {ToggleEvent} */ (event).newState === "open";
      larger.ariaPressed = String(isOpen);
      if (!isOpen) this.element.popover = null;
    });
    this.#following = new TailFollower(this.box);
    copyAsText(this.box);
    this.label = label;
    this.title = title;
  }

  /** The text that is copied: what is shown, or will be in the next frames. */
  text = "";
  /** Whether all that is to be shown is painted. */
  isPainted = true;
  isExpanded = false;
  meta = make("span", { class: "meta" });
  /** @type {RowSource | null} */ source = null;
  #onPainting;
  #title = make("span", { class: "title" });
  #more;
  #following;

  /** @param {string} label for assistive technology */
  set label(label) {
    setAttribute(this.box, "aria-label", label);
  }

  /** @param {string} title */
  set title(title) {
    setInOrder(this.#title, visibleLine(title));
  }

  /** @param {Mode} mode */
  set mode(mode) {
    const { classList } = this.box;
    // A preview keeps the height of a box that was live, so that nothing below it moves.
    if (mode !== "live" && classList.contains("live")) classList.add("was-live");
    classList.toggle("live", mode === "live");
    this.#following.isFollowing &&= mode === "live";
    this.#setTabStop();
  }

  /** How many characters are not painted yet. */
  get left() {
    return this.isPainted ? 0 : (this.source?.left ?? 0) + 1;
  }

  /** Shows in the next frames what has changed.
   * @param {RowSource} source @param {string} text @param {string | null} language */
  change(source, text, language) {
    this.source = source;
    this.text = text;
    this.language = language;
    this.#refresh();
  }

  #refresh() {
    paint(this.#paint);
    this.isPainted = false;
    this.#onPainting(this);
  }

  /** @param {() => boolean} hasTime */
  #paint = (hasTime) => {
    const { source, box } = this;
    if (!source) return true;
    do {
      if (source.step(this.isExpanded)) continue;
      source.finish();
      this.#place(source);
      this.isPainted = true;
      this.#onPainting(this);
      return true;
    } while (hasTime());
    if (source.rows.element.parentNode === box) this.#following.grown();
    return false;
  };

  /** Shows the rows, which may be new ones. @param {RowSource} source */
  #place({ rows: { element }, digits, counts, rest }) {
    if (element.parentNode !== this.box) this.box.replaceChildren(element);
    if (digits > 3) this.box.style.setProperty("--digits", String(digits));
    this.#following.grown();
    this.#more.hidden = rest === "";
    this.box.classList.toggle("cut", rest !== "");
    if (rest) setText(this.#more, fill(this.texts.showAll, { size: rest }));
    const [plus, minus] = [`+${counts?.added}`, `−${counts?.removed}`];
    if (!(counts?.added || counts?.removed)) return; // or not yet
    if (this.meta.textContent === `${plus} ${minus}`) return;
    const [added, removed] = [make("span", { class: "plus" }), make("span", { class: "minus" })];
    this.meta.replaceChildren(setInOrder(added, plus), " ", setInOrder(removed, minus));
  }

  #expand() {
    this.isExpanded = true;
    this.#refresh();
  }

  /** Toggles full screen. Escape closes it too. */
  #enlarge() {
    if (this.element.popover) {
      this.element.hidePopover();
      return;
    }
    this.#expand();
    this.element.popover = "auto";
    this.element.showPopover();
  }

  /** Only what can be scrolled is a tab stop. */
  #setTabStop() {
    if (this.box.matches(".live, .unwrapped")) this.box.tabIndex = 0;
    else this.box.removeAttribute("tabindex");
  }
}

/** A text that grows, with line numbers and colours. Complete rows are final: only the last one is
 * painted again when more text arrives. */
export class CodeView extends View {
  /** @param {ViewOptions & { onPainting?: (view: View) => void }} options */
  constructor(options) {
    super(options, "code");
    this.#label = options.label;
    this.box.append(this.rows.element);
    this.#highlighter = highlighterFor(this.language);
  }

  rows = new RowList();
  #label;
  #isDone = false;
  #isCut = false;
  /** @type {Mode} */ #mode = "live";
  #cutter = new RowCutter();
  #lines = new LineCount();
  #highlighter;
  /** @type {HTMLElement | null} */ #open = null;

  /** Shows a text; of one that has grown, what is new.
   * @param {string} text
   * @param {{ isDone?: boolean, language?: string | null, title?: string, mode?: Mode }} [more] */
  show(text, { isDone = true, language = this.language, title, mode = "whole" } = {}) {
    if (title) this.#label = this.title = title;
    const before = this.text;
    const isAsBefore = text === before && isDone === this.#isDone && mode === this.#mode;
    if (isAsBefore && language === this.language) return;
    const isLong = text.length > 2 * PREVIEW_CHARACTERS || new LineCount().of(text) > SHORT;
    const isCut = mode === "preview" && !this.isExpanded && isLong;
    const isOther = language !== this.language || text.slice(0, before.length) !== before;
    this.#isDone = isDone;
    this.#mode = mode;
    if (isOther || isCut !== this.#isCut) {
      // Starts again. What is shown is replaced when the new rows are painted.
      this.#isCut = isCut;
      this.#lines = new LineCount();
      this.#cutter = new RowCutter();
      this.rows = new RowList(mode === "preview");
      this.#highlighter = highlighterFor(language);
      this.#open = null;
    } else {
      this.mode = mode;
    }
    this.#cutter.grow(text);
    const lines = this.#lines.of(text);
    const size = lines > 1 ? countOf(lines, "line") : "";
    this.label = [this.#label, size].filter(Boolean).join(", ");
    setText(this.meta, [TITLES[language ?? ""] ?? language, size].filter(Boolean).join(" · "));
    this.change(this, text, language);
  }

  /** @override */
  get left() {
    return this.isPainted ? 0 : this.text.length - this.#cutter.at + 1;
  }

  get digits() {
    return String(this.#lines.of(this.text)).length;
  }

  get rest() {
    if (!this.#isCut) return "";
    const lines = this.#lines.of(this.text);
    return lines > PREVIEW_ROWS ? countOf(lines, "line") : countOf(this.text.length, "character");
  }

  /** Shows the next row that is complete. @param {boolean} isExpanded */
  step(isExpanded) {
    this.#isCut &&= !isExpanded;
    const rows = this.box.matches(".live, .was-live") ? SHORT : PREVIEW_ROWS;
    const isEnough = this.rows.length >= rows || this.#cutter.at >= PREVIEW_CHARACTERS;
    const row = this.#isCut && isEnough ? null : this.#cutter.next();
    if (row === null) return false;
    const element = this.#open ?? this.rows.append(makeRow(row));
    element.classList.remove("open");
    fillRow(element, this.#highlighter.take(row.text, row.endsLine), row.endsLine);
    this.#open = null;
    return true;
  }

  finish() {
    if (!this.#isCut) this.#showOpen();
    this.mode = this.#mode; // not before the rows that are for it
  }

  /** Shows the row that may still grow. */
  #showOpen() {
    const row = this.#cutter.open();
    const isEmpty = row.text === "" && row.number > 1; // a newline at the end begins no line
    if (isEmpty && this.#isDone) {
      this.#open?.remove();
      this.#open = null;
      return;
    }
    this.#open ??= this.rows.append(makeRow(row));
    this.#open.classList.toggle("open", !this.#isDone);
    fillRow(this.#open, this.#highlighter.peek(row.text), false);
  }
}

/** An edit as a diff, also while the model writes it. A preview shows the places where the texts
 * differ, with some unchanged lines around each. */
export class DiffView extends View {
  /** @type {unknown[]} */ #given = [];

  /** Shows an edit; of one that has grown, what is new.
   * @param {{ before: string, after: string, isBeforeDone?: boolean, isAfterDone?: boolean,
   *   language?: string | null, title?: string, mode?: Mode }} edit */
  show({ before, after, isBeforeDone = true, isAfterDone = true, ...more }) {
    const { language = this.language, title, mode = "whole" } = more;
    if (title !== undefined) this.title = title;
    this.mode = mode;
    const given = [before, after, isBeforeDone, isAfterDone, language, mode];
    if (given.every((one, at) => one === this.#given[at])) return;
    this.#given = given;
    const { source } = this;
    const known = source instanceof EditRows && language === this.language ? source : null;
    // A few lines that were painted stay, so that nothing below them moves.
    if (mode === "preview" && !(known && new LineCount().of(before) <= SHORT)) {
      this.change(new Hunks(before, after, language, this.texts), after, language);
      return;
    }
    const next = known?.mayBecome(before, isBeforeDone, after, isAfterDone)
      ? known : new EditRows(language, this.texts);
    next.grow(before, isBeforeDone, after, isAfterDone);
    this.change(next, after, language);
  }
}

const CONTEXT = 3; // unchanged lines shown before and after a change

/** The rows of two complete texts around the places where they differ. */
class Hunks {
  /** @param {string} before @param {string} after @param {string | null} language
   * @param {typeof codeTexts} texts */
  constructor(before, after, language, texts) {
    this.#before = before;
    this.#after = after;
    this.#texts = texts;
    this.#oldColours = highlighterFor(language);
    this.#newColours = highlighterFor(language);
  }

  rows = new RowList(true);
  counts = { added: 0, removed: 0 };
  #before;
  #after;
  #texts;
  #oldColours;
  #newColours;
  /** @type {Step[] | null} */ #waiting = null;
  #total = 0; // rows
  #count = 0; // rows that are painted
  #old = 1; // numbers of the next lines
  #new = 1;

  left = 0;

  get digits() {
    return String(Math.max(this.#old, this.#new)).length;
  }

  get rest() {
    return this.#count < this.#total ? countOf(this.#total, "line") : "";
  }

  finish() {} // the texts are complete

  /** Does the next bit of work. Returns false if there is none. @param {boolean} isExpanded */
  step(isExpanded) {
    this.#waiting ??= this.#find();
    const isCut = !isExpanded && this.#total > SHORT && this.#count >= PREVIEW_ROWS;
    const step = isCut ? undefined : this.#waiting.pop();
    if (step === undefined) return false;
    const { kind, text, isHidden, marks } = step;
    if (!isHidden) this.#count += 1;
    if (kind === "gap" || kind === "remark") {
      this.rows.append(make("div", { class: `row ${kind}`, text }));
      return true;
    }
    const old = kind === "added" ? 0 : this.#old++;
    const next = kind === "removed" ? 0 : this.#new++;
    if (kind === "same") this.#oldColours.take(text, true);
    const colours = kind === "removed" ? this.#oldColours : this.#newColours;
    if (isHidden) {
      colours.take(text, true);
      return true;
    }
    const line = new DiffLine(text, kind, colours);
    line.number(old, next);
    if (marks) line.mark(marks);
    for (const row of line.rows) this.rows.append(row);
    return true;
  }

  /** Compares the texts. Returns the steps, the last one first. */
  #find() {
    const { changes, isRough } = lineDiff(splitLines(this.#before), splitLines(this.#after));
    const steps = hunks(changes, this.#texts);
    if (isRough) steps.unshift({ kind: "remark", text: this.#texts.roughDiff });
    const text = newlineRemark(this.#before, this.#after, this.#texts);
    if (text) steps.push({ kind: "remark", text });
    for (const { kind, isHidden } of steps) {
      if (kind === "added" || kind === "removed") this.counts[kind] += 1;
      if (!isHidden) this.#total += 1;
    }
    return steps.reverse();
  }
}

/** Hides unchanged lines far from any change. Their steps stay in the list, because the highlighter
 * needs their text. @param {LineChange[]} changes @param {typeof codeTexts} texts */
function hunks(changes, texts) {
  const marks = wordMarks(changes);
  const isNear = changes.map(() => false);
  for (const [at, { kind }] of changes.entries()) {
    if (kind !== "same") isNear.fill(true, Math.max(0, at - CONTEXT), at + CONTEXT + 1);
  }
  /** @type {Step[]} */
  const steps = [];
  for (let at = 0; at < changes.length; at += 1) {
    const near = isNear.indexOf(true, at);
    const far = changes.slice(at, near < 0 ? changes.length : near);
    const isHidden = far.length > 1; // a single line needs as much room as the words
    const size = countOf(far.length, "unchanged line");
    if (isHidden) steps.push({ kind: "gap", text: fill(texts.unchanged, { size }) });
    for (const change of far) steps.push({ ...change, isHidden });
    at += far.length;
    const change = changes[at];
    if (change) steps.push({ ...change, marks: marks.get(change) });
  }
  return steps;
}

/** Returns a remark if only one text ends with a newline, else "".
 * @param {string} before @param {string} after @param {typeof codeTexts} texts */
function newlineRemark(before, after, { noNewline }) {
  if (before === "" || after === "" || before.endsWith("\n") === after.endsWith("\n")) return "";
  return fill(noNewline, { side: before.endsWith("\n") ? "new" : "old" });
}

/** Counts the lines of a text that grows, reading each character once. A newline at the end begins
 * no further line. */
export class LineCount {
  #at = 0;
  #newlines = 0;

  /** @param {string} text */
  of(text) {
    if (text.length < this.#at) this.#at = this.#newlines = 0;
    for (let at = text.indexOf("\n", this.#at); at >= 0; at = text.indexOf("\n", at + 1)) {
      this.#newlines += 1;
    }
    this.#at = text.length;
    return this.#newlines + (text === "" || text.endsWith("\n") ? 0 : 1);
  }
}

/** @param {string} text */
export function splitLines(text) {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

// Rows. A row is a line, or a part of a very long one, so that the work for a row is bounded. Rows
// are grouped in chunks, and the layout skips the chunks that are out of sight.

const LONGEST = 1000; // characters of a row
const HEAVY = 2000; // characters of a chunk, beyond which it has fewer rows
const CROWDED = 400; // rows at which a chunk is split

/** Cuts a growing text into rows, reading each character once. */
export class RowCutter {
  /** @param {number} longest characters of a row */
  constructor(longest = LONGEST) {
    this.#longest = longest;
  }

  text = "";
  at = 0;
  number = 1;
  isContinuation = false;
  #longest;
  #newline = 0;

  /** Sets the text, which continues the one before. @param {string} text */
  grow(text) {
    if (this.#newline < 0) this.#newline = this.text.length;
    this.text = text;
  }

  /** Returns the next row that is complete, or null. @returns {Row | null} */
  next() {
    if (this.#newline >= 0 && this.text[this.#newline] !== "\n") {
      this.#newline = this.text.indexOf("\n", this.#newline);
    }
    const end = this.#newline < 0 ? this.text.length : this.#newline;
    const { number, isContinuation, at } = this;
    if (end - at > this.#longest) {
      this.at = at + this.#longest;
      if (/[\ud800-\udbff]/.test(this.text[this.at - 1] ?? "")) this.at += 1; // half a character
      this.isContinuation = true;
      const text = this.text.slice(at, this.at);
      return { text, number, isContinuation, endsLine: false };
    }
    if (this.#newline < 0) return null;
    this.at = this.#newline = end + 1;
    this.number += 1;
    this.isContinuation = false;
    return { text: this.text.slice(at, end), number, isContinuation, endsLine: true };
  }

  /** Returns the row that may still grow. @returns {Row} */
  open() {
    const { number, isContinuation } = this;
    return { text: this.text.slice(this.at), number, isContinuation, endsLine: false };
  }
}

/** @typedef {{ name: string, number: string | undefined, parts: [string, string][] }} StoredRow */

/** Rows of a view, in chunks. If they are windowed, the rows of a chunk that the layout skips leave
 * the DOM: their texts are stored until the chunk comes near the visible area again. */
export class RowList {
  constructor(isWindowed = false) {
    this.element = make("div", { class: "rows" });
    this.#chunks = new Chunks(this.element, height);
    this.#isWindowed = isWindowed;
    if (!isWindowed) return;
    this.element.addEventListener("contentvisibilityautostatechange", ({ target }) => {
      if (!(target instanceof HTMLElement)) return;
      const isChunk = target.classList.contains("chunk");
      for (const chunk of isChunk ? [target] : target.children) {
        this.#turned.add(/** @type {HTMLElement} */ (chunk));
      }
      paint(this.#turn);
    });
  }

  length = 0; // rows that were appended
  #chunks;
  #isWindowed;
  #weight = 0;
  /** @type {Set<HTMLElement>} chunks that the layout may have begun or ceased to skip */
  #turned = new Set();
  /** @type {WeakMap<HTMLElement, StoredRow[]>} */ #stored = new WeakMap();

  /** Adds a row at the end, and returns it. Those before it are complete.
   * @param {HTMLElement} row */
  append(row) {
    this.length += 1;
    this.#weight += this.#chunks.last.lastElementChild?.textContent.length ?? 0;
    const { last } = this.#chunks;
    const closed = this.#chunks.append(row, this.#weight >= HEAVY);
    if (this.#chunks.last !== last) this.#weight = 0;
    if (closed !== null && this.#isWindowed) {
      this.#turned.add(closed);
      paint(this.#turn); // in the next frame, when it may be skipped
    }
    return row;
  }

  /** Puts rows before another one, or at the end.
   * @param {HTMLElement[]} rows @param {Element | null} before */
  insert(rows, before) {
    if (before === null) {
      for (const row of rows) this.append(row);
      return;
    }
    before.before(...rows);
    const chunk = before.parentElement;
    if (chunk === null || chunk.childElementCount < CROWDED) return;
    const all = [...chunk.children];
    this.#chunks.cut(chunk, all.slice(0, all.indexOf(before)));
  }

  /** Stores and restores rows. All heights are read first, so that there is one layout. */
  #turn = () => {
    // Chunks that are not full yet still get rows.
    const turned = [...this.#turned].filter(({ classList }) => classList.contains("full"));
    this.#turned.clear();
    const isSelected = selectedRange(this.element) !== null; // would lose its ends
    const measured = turned.map((chunk) => ({
      chunk,
      rows: this.#stored.get(chunk),
      isOut: chunk.firstElementChild?.checkVisibility({ contentVisibilityAuto: true }) === false,
      height: chunk.offsetHeight,
    }));
    for (const { chunk, rows, isOut, height } of measured) {
      if (isOut && rows === undefined && !isSelected) {
        this.#stored.set(chunk, [...chunk.children].map(stored));
        chunk.style.height = `${height}px`;
        chunk.replaceChildren(document.createElement("div")); // tells whether it is skipped
      } else if (!isOut && rows !== undefined) {
        this.#stored.delete(chunk);
        chunk.style.height = "";
        chunk.replaceChildren(...rows.map(restored));
      }
    }
    return true;
  };
}

/** @param {Element} row @returns {StoredRow} */
function stored(row) {
  const parts = [...row.childNodes].map((node) => /** @type {[string, string]} */ (
    [node instanceof Element ? node.className : "", node.textContent ?? ""]));
  return { name: row.className, number: row.getAttribute("data-number") ?? undefined, parts };
}

/** @param {StoredRow} row */
function restored({ name, number, parts }) {
  const row = document.createElement("div");
  row.className = name;
  if (number !== undefined) row.dataset.number = number;
  row.append(...parts.map(([kind, text]) => partOf(kind, text)));
  return row;
}

/** Estimates how many lines on the screen the rows of a chunk take. @param {Element} chunk */
function height(chunk) {
  let lines = 0;
  for (const { textContent } of chunk.children) lines += linesOf(textContent) || 1;
  return lines;
}

/** Makes the element of a row. @param {Row} row @param {string} [kind] a class */
export function makeRow(row, kind = "") {
  const element = make("div", { class: `row ${kind}`.trim() });
  if (row.isContinuation) element.classList.add("continued");
  else element.dataset.number = String(row.number);
  return element;
}

/** Shows the text of a row, each token in its colour.
 * @param {Element} element @param {Token[]} tokens @param {boolean} endsLine */
export function fillRow(element, tokens, endsLine) {
  element.replaceChildren(...tokens.map(([kind, text, isMarked]) =>
    partOf(`${kind ? `t-${kind}` : ""}${isMarked ? " marked" : ""}`.trim(), visible(text))));
  if (endsLine) element.append("\n"); // for the clipboard; it does not make the row higher
}

/** @param {string} name classes @param {string} text that is visible */
function partOf(name, text) {
  if (name === "") return inOneNode(text);
  const element = document.createElement("span");
  element.className = name;
  return setInOrder(element, text);
}

// The diff of an edit that is being written.

/** The rows of one edit, from the beginning of its texts.
 *
 * The old text is shown first. As the new one arrives, old lines become unchanged or removed where
 * they stand, and new lines are put between them. A line that is shown never goes away, except that
 * a new line is merged with the old one that it turns out to equal. */
class EditRows {
  /** @param {string | null} language @param {typeof codeTexts} texts */
  constructor(language, texts) {
    this.#texts = texts;
    this.#oldColours = highlighterFor(language);
    this.#newColours = highlighterFor(language);
  }

  rows = new RowList();
  counts = { added: 0, removed: 0 };
  rest = ""; // nothing is left out
  #before = new Reader();
  #after = new Reader();
  #isEarly = false; // new lines were shown before the end of the old text
  #texts;
  #oldColours;
  #newColours;
  #isOver = false;
  /** @type {StreamingDiff | null} */ #diff = null;
  /** @type {string[]} */ #lines = [];
  /** @type {DiffLine[]} */ #old = [];
  #at = 0;
  #newCount = 0;
  /** @type {DiffLine[]} */ #held = [];
  /** @type {HTMLElement[]} rows of the lines that may still grow, those of the old text first */
  #open = [];

  get left() {
    return this.#before.left + this.#after.left;
  }

  get digits() {
    return String(Math.max(this.#lines.length, this.#newCount)).length;
  }

  /** Returns whether these rows can become those of an edit.
   * @param {string} before @param {boolean} isBeforeDone
   * @param {string} after @param {boolean} isAfterDone */
  mayBecome(before, isBeforeDone, after, isAfterDone) {
    // New lines that came before the end of the old text were shown without a comparison.
    if (this.#isEarly && isBeforeDone) return false;
    return this.#before.mayBecome(before, isBeforeDone)
      && this.#after.mayBecome(after, isAfterDone);
  }

  /** @param {string} before @param {boolean} isBeforeDone
   * @param {string} after @param {boolean} isAfterDone */
  grow(before, isBeforeDone, after, isAfterDone) {
    this.#before.grow(before);
    this.#after.grow(after);
    [this.#before.isDone, this.#after.isDone] = [isBeforeDone, isAfterDone];
  }

  /** Does the next bit of work. Returns false if there is none. */
  step() {
    const old = this.#before.nextLine();
    if (old !== null) {
      this.#close();
      this.#lines.push(old);
      const line = new DiffLine(old, "pending", this.#oldColours);
      line.number(this.#lines.length, 0);
      this.#old.push(line);
      this.rows.insert(line.rows, null);
      return true;
    }
    const next = this.#after.nextLine();
    if (!this.#before.isDone) {
      if (next === null) return false;
      this.#isEarly = true;
      this.rows.insert(this.#newLine(next).rows, this.#cursor());
      return true;
    }
    this.#diff ??= new StreamingDiff(this.#lines);
    if (next !== null) {
      this.#takeNew(this.#diff, next);
      return true;
    }
    if (this.#after.isDone && !this.#isOver) {
      this.#isOver = true;
      this.#close();
      this.#apply(this.#diff.finish());
      const rough = this.#diff.isRough ? this.#texts.roughDiff : "";
      const newline = newlineRemark(this.#before.text, this.#after.text, this.#texts);
      for (const text of [rough, newline].filter(Boolean)) {
        this.rows.append(make("div", { class: "row remark", text }));
      }
    }
    return false;
  }

  /** Shows the lines that may still grow. */
  finish() {
    this.#old[this.#at]?.turn("pending");
    this.#close();
    if (!this.#before.isDone) {
      const { text } = this.#before.open();
      this.#open = new DiffLine(text, "pending", this.#oldColours, true).rows;
      this.rows.insert(this.#open, null);
    }
    const { text } = this.#after.open();
    if (this.#after.isDone || text === "" && !this.#after.text) return;
    if (this.#diff && this.#held.length === 0 && this.#lines[this.#at]?.startsWith(text)) {
      this.#old[this.#at]?.rows[0]?.classList.add("open");
    } else if (text !== "") {
      const { rows } = new DiffLine(text, "added", this.#newColours, true);
      this.rows.insert(rows, this.#cursor());
      this.#open.push(...rows);
    }
  }

  /** Removes the lines that may still grow. */
  #close() {
    for (const row of this.#open) row.remove();
    this.#open = [];
  }

  /** Returns the row before which new lines go. */
  #cursor() {
    return this.#old[this.#at]?.rows[0] ?? this.#open[0] ?? null;
  }

  /** @param {string} text */
  #newLine(text) {
    const line = new DiffLine(text, "added", this.#newColours);
    line.number(0, ++this.#newCount);
    return line;
  }

  /** @param {StreamingDiff} diff @param {string} text */
  #takeNew(diff, text) {
    this.#close();
    const isAhead = diff.held.length === 0;
    const changes = diff.add(text);
    const line = this.#newLine(text);
    if (isAhead && changes[0]?.kind === "same") {
      const old = this.#old[this.#at++];
      old?.turn("same");
      old?.number(this.#at, this.#newCount);
      return;
    }
    this.rows.insert(line.rows, this.#cursor());
    this.#held.push(line);
    this.#apply(changes);
  }

  /** Shows what has become certain, in the order of the changes. @param {LineChange[]} changes */
  #apply(changes) {
    const count = changes.filter(({ kind }) => kind !== "added").length;
    const behind = this.#old[this.#at + count]?.rows[0] ?? null;
    const hasToMove = count > 0 && this.#held.length > 0;
    const marks = wordMarks(changes);
    for (const change of changes) {
      const line = change.kind === "added" ? this.#held.shift() : this.#old[this.#at++];
      if (line === undefined) throw new Error("the diff has more lines than the texts");
      line.turn(change.kind);
      const ranges = marks.get(change);
      if (ranges) line.mark(ranges);
      if (change.kind === "same") {
        const twin = this.#held.shift();
        line.number(this.#at, twin?.newNumber ?? 0);
        for (const row of twin?.rows ?? []) row.remove();
      } else {
        this.counts[change.kind] += 1;
      }
      if (hasToMove) this.rows.insert(line.rows, behind);
    }
  }
}

/** @typedef {LineChange["kind"] | "pending"} Sign */

/** A complete line of a diff, in one row or in several. */
class DiffLine {
  /** @param {string} text @param {Sign} sign @param {ReturnType<typeof highlighterFor>} colours
   * @param {boolean} [isOpen] whether the line may still grow; then it leaves the colours as is */
  constructor(text, sign, colours, isOpen = false) {
    this.sign = sign;
    const cutter = new RowCutter();
    cutter.grow(text);
    for (let row = cutter.next(); row !== null; row = cutter.next()) {
      this.#add(row, isOpen ? [[null, row.text]] : colours.take(row.text, false), false);
    }
    const last = cutter.open();
    this.#tokens = isOpen ? colours.peek(last.text) : colours.take(last.text, true);
    this.#add(last, this.#tokens, !isOpen);
    if (isOpen) this.rows.at(-1)?.classList.add("open");
    if (isOpen) delete this.rows[0]?.dataset.number; // it has none yet
  }

  /** @type {HTMLElement[]} */ rows = [];
  newNumber = 0;
  #tokens;

  /** @param {Sign} sign */
  turn(sign) {
    for (const row of this.rows) {
      row.classList.replace(this.sign, sign);
      row.classList.remove("open");
    }
    this.sign = sign;
  }

  /** Sets the line numbers; 0 is none. @param {number} old @param {number} next */
  number(old, next) {
    this.newNumber = next;
    const words = [old, next].map((number) => String(number || "").padStart(3));
    if (this.rows[0]) this.rows[0].dataset.number = words.join(" ");
  }

  /** Marks the words that differ. @param {Range[]} ranges */
  mark(ranges) {
    const [row, ...more] = this.rows;
    if (row && more.length === 0) fillRow(row, withMarks(this.#tokens, ranges), true);
  }

  /** @param {Row} row @param {Token[]} tokens @param {boolean} endsLine */
  #add(row, tokens, endsLine) {
    const element = makeRow(row, this.sign);
    fillRow(element, tokens, endsLine);
    this.rows.push(element);
  }
}

/** Cuts a growing text into lines. */
class Reader extends RowCutter {
  constructor() {
    super(Infinity);
  }

  isDone = false;

  /** Returns whether the text can become another one. @param {string} text
   * @param {boolean} isDone */
  mayBecome(text, isDone) {
    if (this.isDone) return isDone && text === this.text;
    return text.slice(0, this.text.length) === this.text;
  }

  /** Returns the next line that is complete, or null. A newline at the end begins no empty line. */
  nextLine() {
    const row = this.next();
    if (row || !this.isDone || this.left === 0) return row?.text ?? null;
    const { text } = this.open();
    this.at = this.text.length;
    return text;
  }

  /** How many characters were not returned yet. */
  get left() {
    return this.text.length - this.at;
  }
}

// Words that differ in lines that were replaced.

const WORD = /[\p{L}\p{N}_]+|\s+|[^\s\p{L}\p{N}_]/gu;
const MOST_COMPARED = 300; // characters of a line
const LEAST_ALIKE = 1 / 3; // of the characters; lines that have less in common are not marked

/** Compares removed lines with the lines added in their place, word by word.
 * @param {readonly LineChange[]} changes @returns {Map<LineChange, Range[]>} */
function wordMarks(changes) {
  const marks = new Map();
  for (let at = 0; at < changes.length; at += 1) {
    const [removed, added] = [[], []].map(() => /** @type {LineChange[]} */ ([]));
    for (let one = changes[at]; one && one.kind !== "same"; one = changes[++at]) {
      (one.kind === "removed" ? removed : added)?.push(one);
    }
    removed?.forEach((before, place) => {
      const after = added?.[place];
      const found = after && wordDiff(before.text, after.text);
      if (!found) return;
      marks.set(before, found.removed);
      marks.set(after, found.added);
    });
  }
  return marks;
}

/** @param {string} before @param {string} after */
function wordDiff(before, after) {
  const longest = Math.max(before.trim().length, after.trim().length);
  if (before.length > MOST_COMPARED || after.length > MOST_COMPARED || longest === 0) return null;
  /** @type {{ removed: Range[], added: Range[] }} */
  const ranges = { removed: [], added: [] };
  const at = { removed: 0, added: 0 };
  let alike = 0;
  const { changes } = lineDiff(before.match(WORD) ?? [], after.match(WORD) ?? []);
  for (const { kind, text } of changes) {
    if (kind === "same") {
      alike += text.trim().length;
      at.removed += text.length;
      at.added += text.length;
      continue;
    }
    const last = ranges[kind].at(-1);
    if (last?.[1] === at[kind]) last[1] += text.length;
    else ranges[kind].push([at[kind], at[kind] + text.length]);
    at[kind] += text.length;
  }
  return alike < longest * LEAST_ALIKE ? null : ranges;
}

/** Cuts tokens where marks begin and end. @param {Token[]} tokens @param {Range[]} ranges */
function withMarks(tokens, ranges) {
  /** @type {Token[]} */
  const cut = [];
  let at = 0;
  for (const [kind, text] of tokens) {
    const end = at + text.length;
    let from = at;
    for (const [first, last] of ranges) {
      const [begin, stop] = [Math.max(first, at), Math.min(last, end)];
      if (begin >= stop) continue;
      if (begin > from) cut.push([kind, text.slice(from - at, begin - at)]);
      cut.push([kind, text.slice(begin - at, stop - at), true]);
      from = stop;
    }
    if (from < end) cut.push([kind, text.slice(from - at)]);
    at = end;
  }
  return cut;
}

// Line diff. Equal lines at both ends are set aside. Between them, the longest sequence of pairs of
// equal lines is looked for (Hunt and Szymanski), if there are not too many pairs. Else, lines that
// occur once in each text divide the work (patience diff). If there are none, the whole section
// counts as replaced, and the result is rough. So the time is bounded, and a diff always contains
// both texts.

const MOST_PAIRS = 1_000_000; // compared at most, in one diff

/** Compares two texts, given as lines.
 * @param {readonly string[]} before @param {readonly string[]} after
 * @returns {{ changes: LineChange[], isRough: boolean }} rough: more lines may be equal */
export function lineDiff(before, after) {
  /** @type {LineChange[]} */
  const changes = [];
  const { found, isRough } = matches(before, after);
  found.push([before.length, after.length]);
  let [at, other] = [0, 0];
  for (const [place, partner] of found) {
    for (const text of before.slice(at, place)) changes.push({ kind: "removed", text });
    for (const text of after.slice(other, partner)) changes.push({ kind: "added", text });
    const text = before[place];
    if (text !== undefined) changes.push({ kind: "same", text });
    [at, other] = [place + 1, partner + 1];
  }
  return { changes, isRough };
}

/** @typedef {[place: number, partner: number]} Pair */

/** Returns the places of equal lines, in order.
 * @param {readonly string[]} before @param {readonly string[]} after
 * @returns {{ found: Pair[], isRough: boolean }} */
function matches(before, after) {
  /** @type {Pair[]} */
  const found = [];
  let left = MOST_PAIRS;
  let isRough = false;
  const sections = [[0, before.length, 0, after.length]];
  for (let next = sections.pop(); next !== undefined; next = sections.pop()) {
    let [from = 0, to = 0, otherFrom = 0, otherTo = 0] = next;
    while (from < to && otherFrom < otherTo && before[from] === after[otherFrom]) {
      found.push([from++, otherFrom++]);
    }
    while (from < to && otherFrom < otherTo && before[to - 1] === after[otherTo - 1]) {
      found.push([--to, --otherTo]);
    }
    const places = placesOf(before, from, to);
    const partners = placesOf(after, otherFrom, otherTo);
    let pairs = 0;
    for (const [line, { length }] of places) pairs += length * (partners.get(line)?.length ?? 0);
    const isAll = pairs <= left;
    if (isAll) left -= pairs;
    for (const [line, { length }] of isAll ? [] : partners) {
      if (length > 1 || places.get(line)?.length !== 1) partners.delete(line);
    }
    const sequence = longestSequence(before.slice(from, to), from, partners);
    for (const pair of sequence) found.push(pair); // too many for one call
    if (isAll) continue;
    isRough ||= sequence.length === 0;
    if (sequence.length === 0) continue;
    for (const [place, partner] of [...sequence, /** @type {Pair} */ ([to, otherTo])]) {
      sections.push([from, place, otherFrom, partner]);
      [from, otherFrom] = [place + 1, partner + 1];
    }
  }
  found.sort(([place], [another]) => place - another);
  return { found, isRough };
}

/** Returns the longest sequence of pairs that are in order in both texts.
 * @param {readonly string[]} lines @param {number} from the place of the first one
 * @param {Map<string, number[]>} partners their places in the other text @returns {Pair[]} */
function longestSequence(lines, from, partners) {
  /** @typedef {{ place: number, partner: number, before: Link | undefined }} Link */
  /** @type {Link[]} the end of the best sequence of each length */
  const ends = [];
  for (const [at, line] of lines.entries()) {
    for (const partner of partners.get(line)?.toReversed() ?? []) {
      const length = firstIndex(ends, (link) => link.partner >= partner);
      if (ends[length]?.partner === partner) continue;
      ends[length] = { place: from + at, partner, before: ends[length - 1] };
    }
  }
  /** @type {Pair[]} */
  const found = [];
  for (let link = ends.at(-1); link !== undefined; link = link.before) {
    found.push([link.place, link.partner]);
  }
  return found.reverse();
}

/** Returns the places of each line.
 * @param {readonly string[]} lines @param {number} from @param {number} to */
function placesOf(lines, from, to) {
  /** @type {Map<string, number[]>} */
  const all = new Map();
  for (let at = from; at < to; at += 1) {
    const line = lines[at] ?? "";
    const places = all.get(line);
    if (places) places.push(at);
    else all.set(line, [at]);
  }
  return all;
}

// A diff while the new text is still being written; argstream/terminal/_diff.py has the same, and
// explains it. A new line that equals the next old one is settled at once. From the first that does
// not, lines are held until it is certain where the texts meet again.

const WINDOW = 300; // old lines that are searched for a new one
const MOST_HELD = 300;
const PROOF = 25; // a match needs one more equal line for every PROOF lines that it is ahead
const TRIED = 10; // places of a line that occurs often
const SAYS_LITTLE = new Set(
  "begin break continue do done else else: end endif fi finally: pass return return; then try try:"
    .split(" "),
);

export class StreamingDiff {
  /** @param {readonly string[]} old */
  constructor(old) {
    this.#old = old;
    this.#places = placesOf(old, 0, old.length);
  }

  /** Whether more lines may be equal. */
  isRough = false;
  /** The new lines that are not settled. @type {string[]} */
  held = [];
  #old;
  #at = 0; // how many old lines are settled
  #places;

  /** Adds the next new line. Returns the changes that are now certain.
   * @param {string} line @returns {LineChange[]} */
  add(line) {
    if (this.held.length === 0) {
      if (this.#at === this.#old.length) return [{ kind: "added", text: line }];
      if (this.#old[this.#at] === line) {
        this.#at += 1;
        return [{ kind: "same", text: line }];
      }
    }
    this.held.push(line);
    const meeting = this.#meeting();
    if (meeting !== null) return this.#settle(...meeting);
    if (this.held.length <= MOST_HELD) return [];
    return [{ kind: "added", text: /** @type {string} */ (this.held.shift()) }];
  }

  /** Ends the new text, and returns the rest.
   * @returns {LineChange[]} */
  finish() {
    return this.#settle(this.#old.length, 0);
  }

  /** Continues from a place in the old text, before which `run` lines are equal.
   * @param {number} place @param {number} run @returns {LineChange[]} */
  #settle(place, run) {
    const split = this.held.length - run;
    const old = this.#old.slice(this.#at, place - run);
    const { changes, isRough } = lineDiff(old, this.held.slice(0, split));
    this.isRough ||= isRough;
    for (const text of this.held.slice(split)) changes.push({ kind: "same", text });
    this.#at = place;
    this.held = [];
    return changes;
  }

  /** Returns where the newest line has an equal that is not equal by chance.
   * @returns {[place: number, run: number] | null} */
  #meeting() {
    const places = this.#places.get(this.held.at(-1) ?? "") ?? [];
    const first = firstIndex(places, (place) => place >= this.#at);
    const end = firstIndex(places, (place) => place >= this.#at + WINDOW);
    for (const place of places.slice(first, Math.min(end, first + TRIED))) {
      const { run, telling } = this.#run(place, 2 + WINDOW / PROOF);
      const away = place + 1 - run - this.#at;
      const isSure = away === 0 || run > 1 || end - first === 1;
      if (isSure && telling > Math.floor(away / PROOF)) {
        return [place + 1, this.#run(place, this.held.length).run];
      }
    }
    return null;
  }

  /** Counts the equal lines up to a place, and those of them with content.
   * @param {number} place @param {number} limit */
  #run(place, limit) {
    const most = Math.min(limit, this.held.length, place + 1 - this.#at);
    let run = 0;
    let telling = 0;
    while (run < most) {
      const line = this.held[this.held.length - 1 - run];
      if (line === undefined || this.#old[place - run] !== line) break;
      run += 1;
      if (!SAYS_LITTLE.has(line.trim()) && /[\p{L}\p{N}]/u.test(line)) telling += 1;
    }
    return { run, telling };
  }
}

// Highlighting, row by row. A highlighter takes the rows of a text in their order, and cuts each
// into tokens, which make up the row. The time is linear: a row has a bounded length, and each rule
// reads a character a bounded number of times. No grammar is complete, so colours may be wrong.

// Endings of files, whole names, and other names of languages.
const otherNames = new Map(
  Object.entries({
    python: "py pyi pyw pyx ipynb",
    javascript: "js mjs cjs jsx ts mts cts tsx vue svelte typescript node",
    json: "json jsonl json5 jsonc ndjson webmanifest map",
    shell: "sh bash zsh fish ksh bashrc zshrc profile env dockerfile makefile",
    c: "c h cc cpp cxx hpp hh hxx m mm cs ino proto glsl c++ c# csharp",
    java: "java kt kts scala groovy gradle swift dart kotlin jenkinsfile",
    go: "go mod",
    rust: "rs",
    html: "html htm xhtml xml svg xsl xsd plist rss atom csproj",
    css: "css scss less sass",
    sql: "sql psql ddl",
    markdown: "md markdown mdx rst",
    yaml: "yaml yml",
    toml: "toml ini cfg conf properties editorconfig gitconfig",
    diff: "diff patch rej",
    ruby: "rb rake gemspec gemfile rakefile",
    php: "php",
    lua: "lua",
  }).flatMap(([language, names]) => names.split(" ").map((name) => [name, language])),
);

/** Returns the language of a file by its name, or null.
 * @param {string} path */
export function languageOfFile(path) {
  return otherNames.get(path.toLowerCase().split(/[./\\]/).at(-1) ?? "") ?? null;
}

/** Returns the language of a name such as "python", "ts" or "bash", or null.
 * @param {string} word */
export function languageNamed(word) {
  const name = word.trim().toLowerCase();
  return grammars.has(name) ? name : (otherNames.get(name) ?? null);
}

/** @type {Record<string, string>} */
const TITLES = {
  python: "Python", javascript: "JavaScript", json: "JSON", shell: "Shell", c: "C", java: "Java",
  go: "Go", rust: "Rust", html: "HTML", css: "CSS", sql: "SQL", markdown: "Markdown", yaml: "YAML",
  toml: "TOML", diff: "Diff", ruby: "Ruby", php: "PHP", lua: "Lua",
};

/** Cuts the rows of one text into tokens, in their order. Without a grammar, it has no colours. */
class Highlighter {
  /** @param {Grammar | undefined} grammar */
  constructor(grammar) {
    this.#grammar = grammar;
  }

  #grammar;
  /** @type {State} */ #state = null;
  #isStart = true;

  /** Returns the tokens of the next row, which is complete.
   * @param {string} text @param {boolean} endsLine @returns {Token[]} */
  take(text, endsLine) {
    const [tokens, state] = this.#tokenize(text);
    const isOver = endsLine && state?.span && !state.span.isMultiline && !state.isEscaped;
    this.#state = isOver ? null : endsLine && state ? { ...state, isEscaped: false } : state;
    this.#isStart = endsLine;
    return tokens;
  }

  /** Cuts the next row as far as it is known.
   * @param {string} text @returns {Token[]} */
  peek(text) {
    return this.#tokenize(text)[0];
  }

  /** @param {string} text @returns {[Token[], State]} */
  #tokenize(text) {
    return this.#grammar?.tokenize(text, this.#state, this.#isStart) ?? [[[null, text]], null];
  }
}

/** Returns a highlighter. Without a known language, it has no colours.
 * @param {string | null} language */
export function highlighterFor(language) {
  return new Highlighter(grammars.get(language ?? ""));
}

// Grammars. There is one tokenizer. Languages differ in their words and in their spans: comments,
// strings, and anything else recognised by its first characters.

/** @type {Span} */
const number = {
  kind: "number",
  open: String.raw`(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)`
    + String.raw`[a-zA-Z%]{0,3}(?!\w)`,
};
/** @type {Span} */
const word = { kind: "word", open: String.raw`[\p{L}_$][\p{L}\p{N}_$]*` };
const REST = String.raw`\s+|[\p{L}\p{N}_$]+|[^\s\p{L}\p{N}_$]`;

class Grammar {
  /** @param {Rules} rules */
  constructor({ spans, keywords = "", definers = "", ...more }) {
    this.#spans = more.isProse ? spans : [...spans, number, word];
    this.#keywords = new Set(keywords.split(" "));
    this.#definers = new Set(definers.split(" "));
    this.#more = more;
    const all = [...this.#spans.map(({ open }) => `(${open})`), REST];
    this.#pattern = new RegExp(all.join("|"), "uy");
  }

  #spans;
  #keywords;
  #definers;
  #more;
  #pattern;

  /** @param {string} text @param {State} state @param {boolean} isStart
   * @returns {[Token[], State]} */
  tokenize(text, state, isStart) {
    const kind = state?.block && (isStart ? state.block(text) : "string");
    if (kind) return [[[kind, text]], kind === "string" ? state : null];
    /** @type {Token[]} */
    const tokens = [];
    let at = 0;
    let defines = false;
    let [span, isEscaped] = [state?.span, state?.isEscaped];
    while (at < text.length) {
      if (span) {
        const end = endOf(span, text, isEscaped ? at + 1 : at);
        addToken(tokens, span.kind, text.slice(at, end.at));
        ({ at, isEscaped } = end);
        if (end.isClosed) span = undefined;
        continue;
      }
      this.#pattern.lastIndex = at;
      const match = /** @type {RegExpExecArray} */ (this.#pattern.exec(text)); // the rest takes all
      const [found] = match;
      const group = match.findIndex((one, index) => index > 0 && one !== undefined);
      const next = this.#spans[group - 1];
      const key = this.#more.ignoresCase ? found.toLowerCase() : found;
      const ofWord = this.#keywords.has(key) ? "keyword" : defines ? "name" : null;
      addToken(tokens, next === word ? ofWord : next?.kind ?? null, found);
      if (found.trim()) defines = this.#definers.has(found);
      at += found.length;
      if (next?.close !== undefined) [span, isEscaped] = [next, false];
    }
    const block = span?.close ? null : this.#more.block?.(tokens);
    return [tokens, block ? { block } : span ? { span, isEscaped } : null];
  }
}

/** Adds a token. Neighbours of the same kind are one.
 * @param {Token[]} tokens @param {string | null} kind @param {string} text */
function addToken(tokens, kind, text) {
  const last = tokens.at(-1);
  if (last && last[0] === kind) last[1] += text;
  else if (text) tokens.push([kind, text]);
}

/** Returns where a span ends, from a place inside it.
 * @param {Span} span @param {string} text @param {number} from */
function endOf({ close = "", hasEscapes }, text, from) {
  let at = from;
  while (close && at < text.length && !text.startsWith(close, at)) {
    at += hasEscapes && text[at] === "\\" ? 2 : 1;
  }
  const isClosed = close !== "" && at < text.length;
  return { at: isClosed ? at + close.length : text.length, isClosed, isEscaped: at > text.length };
}

/** @param {string} open @returns {Span} */
const name = (open) => ({ kind: "name", open });
/** A comment to the end of the line. @param {string} open @returns {Span} */
const comment = (open) => ({ kind: "comment", open, close: "" });
/** A string of several lines. @param {string} close @param {string} [open] @returns {Span} */
const raw = (close, open = close) => ({ kind: "string", open, close, isMultiline: true });
/** The same, with escapes. @param {string} close @param {string} [open] @returns {Span} */
const long = (close, open) => ({ ...raw(close, open), hasEscapes: true });
/** A string of one line. @param {string} close @param {string} [open] @returns {Span} */
const quoted = (close, open) => ({ ...long(close, open), isMultiline: false });
const [double, single, backtick] = [quoted('"'), quoted("'"), long("`")];
const [slashes, hash] = [comment("\\/\\/"), comment("#")];
const block = { kind: "comment", open: "\\/\\*", close: "*/", isMultiline: true };
const prefix = "(?:[rbfuRBFU]{1,2})?";

// After a value, a slash is a division and begins no regular expression.
const regularExpression = {
  kind: "string",
  open: String.raw`(?<=(?:^|[^\w)\]}$\s])\s*|(?:^|[^\w$.])`
    + String.raw`(?:return|typeof|case|in|of|yield|await|do|else)\s*)`
    + String.raw`\/(?![*\/])(?:[^\\\/\[]|\\.|\[(?:[^\]\\]|\\.)*\])+\/[a-z]{0,8}`,
};

const fence = /^\s{0,40}(?:`{3,}|~{3,})/;
const blockScalar = /[:-]\s{1,9}[|>][-+\d]{0,2}\s{0,9}$/;

/** @param {Token[]} tokens */
function textOf(tokens) {
  return tokens.map(([, text]) => text).join("");
}

// Keywords of most languages with curly brackets.
const curly = "abstract break case catch class const continue default do else enum false for if "
  + "interface new null private protected public return static switch throw true try while";

/** @type {Rules[]} */
const languages = [
  {
    name: "python",
    spans: [
      name("(?<!\\S)@[\\w.]+"), hash, long('"""', `${prefix}"""`), long("'''", `${prefix}'''`),
      quoted('"', `${prefix}"`), quoted("'", `${prefix}'`),
    ],
    keywords:
      "False None True and as assert async await break case class continue def del elif else " +
      "except finally for from global if import in is lambda match nonlocal not or pass raise " +
      "return try type while with yield",
    definers: "def class",
  },
  {
    name: "javascript",
    spans: [regularExpression, name("@\\w+"), slashes, block, double, single, backtick],
    keywords:
      `${curly} as async await debugger declare delete export extends finally from function get ` +
      "implements import in instanceof keyof let namespace of readonly satisfies set super this " +
      "type typeof undefined var void with yield",
    definers: "function class interface enum namespace",
  },
  {
    name: "json",
    spans: [name('"(?:[^"\\\\]|\\\\.)*"(?=\\s{0,8}:)'), slashes, block, double],
    keywords: "true false null",
  },
  {
    name: "shell",
    spans: [
      { kind: "string", open: "\\\\." }, name("\\$(?:\\w+|\\{\\w+\\}|[@#?$!*-])"),
      comment("(?<![^\\s;&|(])#"), long('"'), raw("'"),
      { kind: "keyword", open: String.raw`<<-?[ \t]*(?:'\w+'|"\w+"|\w+)` },
    ],
    block: (tokens) => {
      const mark = tokens.find(([kind, text]) => kind === "keyword" && text.startsWith("<<"))?.[1];
      const end = mark?.replace(/^<<-?[ \t]*|['"]/g, "");
      return end === undefined ? null : (line) => (line.trim() === end ? "keyword" : "string");
    },
    keywords:
      "alias break case cd continue do done echo elif else esac eval exec exit export fi for " +
      "function if in local read return select set shift source sudo then trap unset until while",
    definers: "function",
  },
  {
    name: "c",
    spans: [name("(?<!\\S)#[ \\t]*[a-z]+"), slashes, block, double, single],
    keywords:
      `${curly} alignas async auto await base bool char constexpr delete double explicit export ` +
      "extern final float foreach friend get goto in inline int internal long message mutable " +
      "namespace nullptr operator override readonly ref rpc service set short signed sizeof " +
      "string struct template this typedef typename union unsigned using var virtual void " +
      "volatile",
    definers: "class struct enum namespace interface union message service",
  },
  {
    name: "java",
    spans: [name("@\\w+"), long('"""'), slashes, block, double, single],
    keywords:
      `${curly} as assert boolean byte char companion data def double extends extension final ` +
      "finally float fun func guard implements import in inout instanceof int internal is " +
      "lateinit lazy let long nil object open override package protocol record sealed self " +
      "short struct super suspend synchronized this throws trait type val var void volatile " +
      "when where with yield",
    definers: "class interface enum record object fun func def trait struct protocol",
  },
  {
    name: "go",
    spans: [slashes, block, double, single, raw("`")],
    keywords:
      "any bool break byte case chan const continue default defer else error fallthrough false " +
      "float32 float64 for func go goto if import int int32 int64 interface iota map nil package " +
      "range return rune select string struct switch true type uint uint8 uint32 uint64 var",
    definers: "func type package",
  },
  {
    name: "rust",
    spans: [
      { kind: "string", open: "'(?:[^'\\\\]|\\\\.[^']{0,8})'" },
      name("#!?\\[\\w+|\\w+!(?=[(\\[{])|'\\w+"),
      slashes, block, raw('"#', 'r#"'), long('"', 'b?"'),
    ],
    keywords:
      "as async await bool break char const continue crate dyn else enum extern f32 f64 false fn " +
      "for i32 i64 if impl in let loop match mod move mut pub ref return self Self static str " +
      "struct super trait true type u8 u32 u64 unsafe use usize where while",
    definers: "fn struct enum trait mod type",
  },
  {
    name: "sql",
    spans: [comment("--"), block, raw("'"), { kind: "string", open: '"', close: '"' }],
    ignoresCase: true,
    keywords:
      "add all alter and as asc begin between bigint boolean by cascade case char check column " +
      "commit constraint create cross database date default delete desc distinct drop else end " +
      "except exists explain false foreign from full function grant group having if in index " +
      "inner insert int integer intersect into is join key left like limit not null numeric " +
      "offset on or order outer over partition primary references replace returning right " +
      "rollback select set table text then timestamp transaction trigger true truncate union " +
      "unique update using values varchar view when where with",
  },
  {
    name: "toml",
    spans: [
      name("^\\[{1,2}[^\\]]{0,200}\\]{1,2}|(?<![^\\s{,])[\\w.-]{1,100}(?=[ \\t]{0,9}=)"),
      hash, comment("(?<!\\S);"), long('"""'), raw("'''"), double,
      { kind: "string", open: "'", close: "'" },
    ],
    keywords: "true false",
  },
  {
    name: "ruby",
    spans: [name("(?<![:\\w]):\\w+|@{1,2}\\w+"), hash, double, single, backtick],
    keywords:
      "alias and begin break case class def do else elsif end ensure false for if in module next " +
      "nil not or private protected public raise redo require require_relative rescue retry " +
      "return self super then true undef unless until when while yield",
    definers: "def class module",
  },
  {
    name: "php",
    spans: [name("\\$\\w+"), slashes, hash, block, long('"'), long("'")],
    keywords:
      `${curly} and array as clone declare echo elseif empty extends final finally fn foreach ` +
      "function global implements include instanceof isset list match namespace or print " +
      "readonly require require_once trait unset use var yield",
    definers: "function class interface trait namespace",
  },
  {
    name: "lua",
    spans: [
      { ...block, open: "--\\[\\[", close: "]]" }, comment("--"), raw("]]", "\\[\\["),
      double, single,
    ],
    keywords:
      "and break do else elseif end false for function goto if in local nil not or repeat return " +
      "then true until while",
    definers: "function",
  },
  {
    name: "css",
    spans: [
      { kind: "string", open: "#[\\da-fA-F]{3,8}(?![\\w-])" },
      name("(?<![^\\s{;])[\\w-]{1,60}(?=[ \\t]{0,9}:[^:])|--[\\w-]{1,80}|[$@][\\w-]{1,60}"),
      block, comment("(?<!\\S)\\/\\/"), double, single,
    ],
    keywords: "important",
  },
  {
    name: "html",
    spans: [
      { ...block, open: "<!--", close: "-->" },
      raw('"', '(?<==\\s{0,9})"'), raw("'", "(?<==\\s{0,9})'"),
      { kind: "keyword", open: "<\\/?[a-zA-Z][\\w:.-]{0,80}|<!\\w{0,20}|<\\?\\w{0,20}|[\\/?]?>" },
      name("[\\w:@.-]{1,80}(?=\\s{0,9}=\\s{0,9}[\"'])"), { kind: "number", open: "&[#\\w]{1,12};" },
    ],
    isProse: true,
  },
  {
    name: "markdown",
    spans: [
      { kind: "comment", open: fence.source, close: "" },
      { kind: "heading", open: "^ {0,3}#{1,6}(?!\\S)", close: "" },
      { kind: "keyword", open: "^[\\s>]{0,40}(?:(?:[-*+]|\\d{1,9}[.)])(?=\\s)|>)" },
      { kind: "string", open: "```[^`]*```|``[^`]*``|`[^`]+`" },
      { kind: "strong", open: "\\*\\*[^*]+\\*\\*" },
      { kind: "number", open: "\\]\\([^()\\s]{0,400}\\)|<?https?:\\/\\/[^\\s<>)]{1,400}>?" },
    ],
    isProse: true,
    block: (tokens) => {
      const mark = fence.exec(textOf(tokens))?.[0].trim();
      if (mark === undefined) return null;
      return (line) => {
        const end = fence.exec(line)?.[0].trim();
        return end?.startsWith(mark) && line.trim() === end ? "comment" : "string";
      };
    },
  },
  {
    name: "yaml",
    spans: [
      name("(?<=^\\s{0,200}(?:- {1,8}){0,8})(?!-\\s)[\\w./$\"'-][^:#]{0,200}?(?=:(?:\\s|$))"),
      name("(?<!\\S)[&*!][\\w-]{1,60}"),
      comment("(?<!\\S)#"), long('"', '(?<!\\w)"'), raw("'", "(?<!\\w)'"),
    ],
    keywords: "true false null yes no on off",
    block: (tokens) => {
      const text = textOf(tokens);
      if (!blockScalar.test(text.slice(-40)) || tokens.at(-1)?.[0] === "comment") return null;
      const indent = text.search(/\S|$/);
      return (line) => (line.search(/\S/) > indent || line.trim() === "" ? "string" : null);
    },
  },
  {
    name: "diff", // or a patch that begins with "*** Begin Patch"
    spans: [
      { kind: "heading", open: "^@@", close: "" },
      {
        kind: "keyword",
        open: "^(?:diff |index |--- |\\+{3} |\\*{3} |(?:new|deleted) file|rename |similarity )",
        close: "",
      },
      { kind: "added", open: "^\\+", close: "" }, { kind: "removed", open: "^-", close: "" },
      { kind: "comment", open: "^\\\\", close: "" },
    ],
    isProse: true,
  },
];

const grammars = new Map(languages.map((rules) => [rules.name, new Grammar(rules)]));
