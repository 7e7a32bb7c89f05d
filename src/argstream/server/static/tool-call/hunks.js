// Two texts as the places where they differ, with a few equal lines around each. Unlike an edit
// that is written, which is shown whole, this is for texts of which most is equal: somebody has
// changed a word in 200 kB, and wants to see that word.

import { make } from "./dom.js";
import { FAILED, lineDiff, ROUGH } from "./line-diff.js";
import { fillRow, makeRow, RowCutter, RowList } from "./lines.js";
import { paint } from "./painting.js";
import { countOf } from "./words.js";

/** @import { LineChange } from "./line-diff.js" */

const AROUND = 3; // equal lines that are shown before and after what differs

/** @typedef {{ kind: "gap", count: number } | { kind: "remark", text: string }} Said */
/** @typedef {LineChange | Said} Shown */

/** Shows them. */
export class HunksView {
  #before = "";
  #after = "";
  #rows = new RowList();
  /** @type {Shown[]} */
  #waiting = [];
  #isFound = true;

  /** @param {string} label */
  constructor(label) {
    this.element = make("div", {
      class: "diff scroll", role: "group", tabindex: 0, "aria-label": label,
    });
  }

  /**
   * @param {string} before
   * @param {string} after
   */
  show(before, after) {
    if (before === this.#before && after === this.#after) return;
    this.#before = before;
    this.#after = after;
    this.#isFound = false;
    paint(this.#paint);
  }

  /** @param {() => boolean} hasTime */
  #paint = (hasTime) => {
    if (!this.#isFound) {
      this.#isFound = true;
      this.#rows = new RowList();
      this.#waiting = this.#find().reverse();
    }
    do {
      const next = this.#waiting.pop();
      if (next === undefined) {
        this.element.replaceChildren(this.#rows.element);
        return true;
      }
      this.#add(next);
    } while (hasTime());
    return false;
  };

  /**
   * Find what is shown; if that fails, it is all of both texts.
   * @returns {Shown[]}
   */
  #find() {
    const [before, after] = [linesOf(this.#before), linesOf(this.#after)];
    try {
      const { changes, isRough } = lineDiff(before, after);
      const found = hunks(changes);
      if (isRough) found.unshift({ kind: "remark", text: ROUGH });
      return found;
    } catch (error) {
      reportError(error);
      /** @type {Shown[]} */
      const both = [{ kind: "remark", text: FAILED }];
      for (const text of before) both.push({ kind: "removed", text });
      for (const text of after) both.push({ kind: "added", text });
      return both;
    }
  }

  /** @param {Shown} shown */
  #add(shown) {
    if (shown.kind === "gap" || shown.kind === "remark") {
      const text = shown.kind === "gap" ? `⋯ ${countOf(shown.count, "equal line")}` : shown.text;
      this.#rows.append(make("div", { class: `row ${shown.kind}`, text }));
      return;
    }
    const cutter = new RowCutter();
    cutter.grow(shown.text);
    for (let row = cutter.next(); row !== null; row = cutter.next()) {
      this.#row(row, shown.kind);
    }
    this.#row(cutter.open(), shown.kind);
  }

  /**
   * @param {import("./lines.js").Row} row
   * @param {string} kind
   */
  #row(row, kind) {
    const element = makeRow(row, kind);
    fillRow(element, [[null, row.text]], true);
    this.#rows.append(element);
  }
}

/** @param {string} text */
function linesOf(text) {
  return text === "" ? [] : text.split("\n");
}

/**
 * Leave out the equal lines that are far from anything that differs.
 * @param {LineChange[]} changes
 */
function hunks(changes) {
  /** @type {Shown[]} */
  const shown = [];
  let from = 0;
  while (from < changes.length) {
    let to = from;
    while (to < changes.length && changes[to]?.kind === "same") to += 1;
    const head = from === 0 ? 0 : AROUND;
    const tail = to === changes.length ? 0 : AROUND;
    const left = to - from - head - tail;
    // One line takes no less room than the words that it is left out.
    if (left > 1) {
      shown.push(...changes.slice(from, from + head), { kind: "gap", count: left });
      shown.push(...changes.slice(to - tail, to));
    } else {
      shown.push(...changes.slice(from, to));
    }
    for (from = to; from < changes.length && changes[from]?.kind !== "same"; from += 1) {
      shown.push(/** @type {LineChange} */ (changes[from]));
    }
  }
  return shown;
}
