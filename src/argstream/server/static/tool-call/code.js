// A text that grows, with line numbers and colours, in a scroll area of its own.
//
// Rows that are complete are final. Only the last one is shown anew when more of it comes, so the
// work for a piece of text does not depend on what came before it.

import { copyAsText } from "./copying.js";
import { make, setAttribute } from "./dom.js";
import { Following } from "./following.js";
import { highlighterFor } from "./highlight.js";
import { fillRow, makeRow, RowCutter, RowList } from "./lines.js";
import { paint } from "./painting.js";

/**
 * @typedef {object} CodeOptions
 * @property {string} label what it is, for who does not see it
 * @property {string | null} [language] as highlight.js gives it
 * @property {boolean} [isNumbered] whether its lines have numbers
 * @property {(view: CodeView) => void} [onPainting] told when there is more to paint, and when not
 */

export class CodeView {
  /** @param {CodeOptions} options */
  constructor({ label, language = null, isNumbered = true, onPainting = () => {} }) {
    this.element = make("div", { class: "code scroll", role: "group", tabindex: 0 });
    this.element.classList.toggle("numbered", isNumbered);
    this.#following = new Following(this.element);
    copyAsText(this.element);
    this.#language = language;
    this.#onPainting = onPainting;
    this.label = label;
    this.#begin();
    this.element.append(this.#rows.element);
  }

  /** Whether all of the text is there. */
  isPainted = true;
  #following;
  #language;
  #onPainting;
  #isDone = false;
  #isFresh = true;
  #cutter = new RowCutter();
  #rows = new RowList();
  #highlighter = highlighterFor(null);
  /** @type {HTMLElement | null} */
  #open = null;

  /** @param {string} label */
  set label(label) {
    setAttribute(this.element, "aria-label", label);
  }

  /** The text that is shown, or will be in the next frames. */
  get text() {
    return this.#cutter.text;
  }

  /** How many characters are not there yet. */
  get left() {
    return this.isPainted ? 0 : this.#cutter.text.length - this.#cutter.at + 1;
  }

  /** Go back to the beginning, unless a reader has chosen a place. */
  toStart() {
    this.#following.toStart();
  }

  /**
   * Show a text; of one that has grown, what is new.
   * @param {string} text
   * @param {{ isDone?: boolean, language?: string | null }} [more] whether no more of it will come
   */
  show(text, { isDone = true, language = this.#language } = {}) {
    const before = this.#cutter.text;
    if (text === before && isDone === this.#isDone && language === this.#language) return;
    if (this.#isFresh && isDone) this.#following.isFollowing = false; // read from its beginning
    this.#isFresh = false;
    this.#isDone = isDone;
    if (language !== this.#language || text.slice(0, before.length) !== before) {
      this.#language = language;
      this.#begin();
    }
    this.#cutter.grow(text);
    paint(this.#paint);
    this.isPainted = false;
    this.#onPainting(this);
  }

  /** Start again, beside what is shown, which is replaced when all of it is there. */
  #begin() {
    this.#cutter = new RowCutter();
    this.#rows = new RowList();
    this.#highlighter = highlighterFor(this.#language);
    this.#open = null;
  }

  /** @param {() => boolean} hasTime */
  #paint = (hasTime) => {
    do {
      const row = this.#cutter.next();
      if (row === null) {
        this.#showOpen();
        this.#settle();
        return true;
      }
      const element = this.#open ?? this.#add(makeRow(row));
      element.classList.remove("open");
      fillRow(element, this.#highlighter.take(row.text, row.endsLine), row.endsLine);
      this.#open = null;
    } while (hasTime());
    if (this.#rows.element.parentNode === this.element) this.#following.grown();
    return false;
  };

  /** Show the row that more may come for. */
  #showOpen() {
    const row = this.#cutter.open();
    this.#open ??= this.#add(makeRow(row));
    this.#open.classList.toggle("open", !this.#isDone);
    fillRow(this.#open, this.#highlighter.peek(row.text), false);
  }

  #settle() {
    const rows = this.#rows.element;
    if (rows.parentNode !== this.element) this.element.replaceChildren(rows);
    const digits = String(this.#cutter.number).length;
    if (digits > 3) this.element.style.setProperty("--digits", String(digits));
    this.#following.grown();
    this.isPainted = true;
    this.#onPainting(this);
  }

  /** @param {HTMLElement} row */
  #add(row) {
    this.#rows.append(row);
    return row;
  }
}
