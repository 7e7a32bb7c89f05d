// The lines of a diff: those that are complete, the last one of a text that grows, and the text
// from which they come.

import { highlighterFor } from "./highlight.js";
import { fillRow, makeRow, RowCutter } from "./lines.js";

/** @import { LineChange } from "./line-diff.js" */
/** @import { Row, Token } from "./lines.js" */
/** @typedef {LineChange["kind"] | "pending"} Sign */

/** A line of one of the texts, in one row or in several. */
export class DiffLine {
  /**
   * @param {string} text
   * @param {Sign} sign
   * @param {ReturnType<typeof highlighterFor>} highlighter
   */
  constructor(text, sign, highlighter) {
    this.sign = sign;
    const cutter = new RowCutter();
    cutter.grow(text);
    for (let row = cutter.next(); row !== null; row = cutter.next()) {
      this.#add(row, highlighter.take(row.text, false), false);
    }
    const last = cutter.open();
    this.#add(last, highlighter.take(last.text, true), true);
  }

  /** @type {HTMLElement[]} */
  rows = [];

  /** @param {Sign} sign */
  turn(sign) {
    for (const row of this.rows) {
      row.classList.replace(this.sign, sign);
      row.classList.remove("open");
    }
    this.sign = sign;
  }

  /**
   * @param {Row} row
   * @param {Token[]} tokens
   * @param {boolean} endsLine
   */
  #add(row, tokens, endsLine) {
    const element = makeRow(row, this.sign);
    fillRow(element, tokens, endsLine);
    this.rows.push(element);
  }
}

/** The last line of a text that still grows. */
export class OpenLine {
  /** @param {Sign} sign */
  constructor(sign) {
    this.sign = sign;
  }

  #cutter = new RowCutter();
  #isFull = false;
  /** @type {HTMLElement[]} */
  rows = [];

  /**
   * Show what the line is by now; rows that are full stay as they are.
   * @param {string} text
   * @param {ReturnType<typeof highlighterFor>} highlighter
   * @param {(row: HTMLElement) => void} place where a further row goes
   */
  show(text, highlighter, place) {
    if (!text.startsWith(this.#cutter.text)) this.remove();
    this.#cutter.grow(text);
    for (let row = this.#cutter.next(); row !== null; row = this.#cutter.next()) {
      const full = this.#row(row, place);
      fillRow(full, [[null, row.text]], false);
      full.classList.remove("open");
      this.#isFull = true;
    }
    const row = this.#cutter.open();
    const last = this.#row(row, place);
    fillRow(last, row.isContinuation ? [[null, row.text]] : highlighter.peek(row.text), false);
    last.classList.add("open");
  }

  remove() {
    for (const row of this.rows) row.remove();
    this.rows = [];
    this.#cutter = new RowCutter();
    this.#isFull = false;
  }

  /**
   * Give the last row, or a further one if that is full.
   * @param {Row} row
   * @param {(row: HTMLElement) => void} place
   */
  #row(row, place) {
    const last = this.rows.at(-1);
    if (last !== undefined && !this.#isFull) return last;
    const further = makeRow(row, this.sign);
    place(further);
    this.rows.push(further);
    this.#isFull = false;
    return further;
  }
}

/** The lines of a text that grows. */
export class Reader {
  text = "";
  isDone = false;
  #at = 0;
  #looked = 0;

  /**
   * Say whether the text is the beginning of another one.
   * @param {string} text
   * @param {boolean} isDone
   */
  mayBecome(text, isDone) {
    if (this.isDone) return isDone && text === this.text;
    return text.slice(0, this.text.length) === this.text;
  }

  /**
   * @param {string} text
   * @param {boolean} isDone
   */
  grow(text, isDone) {
    this.text = text;
    this.isDone = isDone;
  }

  /** Give the next line that is complete, or null. What ends with a newline has no empty line. */
  next() {
    const newline = this.text.indexOf("\n", this.#looked);
    if (newline < 0 && !(this.isDone && this.#at < this.text.length)) {
      this.#looked = this.text.length;
      return null;
    }
    const end = newline < 0 ? this.text.length : newline;
    const line = this.text.slice(this.#at, end);
    this.#at = this.#looked = end + 1;
    return line;
  }

  /** How many characters were not given yet. */
  get left() {
    return Math.max(0, this.text.length - this.#at);
  }

  /** The line that is not complete yet. */
  get open() {
    return this.text.slice(this.#at);
  }
}
