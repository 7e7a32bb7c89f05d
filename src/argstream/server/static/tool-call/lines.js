// A text that grows, as rows: a row is a line, or a piece of a very long one, so that what is done
// for a row is bounded whatever the text. Rows stand in chunks, and the layout skips the chunks
// that are out of sight.

import { Chunks } from "./chunks.js";
import { addInOrder, inOneNode } from "./directions.js";
import { make } from "./dom.js";
import { visible } from "./visible.js";

const LONGEST = 1000; // characters of a row
const HEAVY = 40; // characters of a row, beyond which fewer are laid out together
const WIDTH = 80; // characters of a line on the screen, about
const CROWDED = 400; // rows at which a chunk is split

/**
 * A piece of text, and what it is: keyword, string… or null for nothing special.
 * @typedef {[kind: string | null, text: string]} Token
 */

/**
 * @typedef {object} Row
 * @property {string} text without the newline
 * @property {number} number of its line
 * @property {boolean} isContinuation whether it goes on with the line of the row before
 * @property {boolean} endsLine
 */

/** Cuts a growing text into rows, looking at each character once. */
export class RowCutter {
  text = "";
  at = 0;
  number = 1;
  isContinuation = false;
  #newline = 0;

  /**
   * Say what the text is by now: what it was, and more.
   * @param {string} text
   */
  grow(text) {
    if (this.#newline < 0) this.#newline = this.text.length;
    this.text = text;
  }

  /**
   * Give the next row that is complete, or null.
   * @returns {Row | null}
   */
  next() {
    if (this.#newline >= 0 && this.text[this.#newline] !== "\n") {
      this.#newline = this.text.indexOf("\n", this.#newline);
    }
    const end = this.#newline < 0 ? this.text.length : this.#newline;
    const { number, isContinuation, at } = this;
    if (end - at > LONGEST) {
      this.at = cutAt(this.text, at + LONGEST);
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

  /**
   * Give the row that is not complete yet.
   * @returns {Row}
   */
  open() {
    const { number, isContinuation } = this;
    return { text: this.text.slice(this.at), number, isContinuation, endsLine: false };
  }
}

/** Rows of an element, in chunks. */
export class RowList {
  constructor() {
    this.element = make("div", { class: "rows" });
    this.#chunks = new Chunks(this.element, height);
  }

  #chunks;
  #weight = 0;

  /**
   * Add a row at the end. Those before it have their whole text by now.
   * @param {Element} row
   */
  append(row) {
    this.#weight += this.#chunks.last.lastElementChild?.textContent.length ?? 0;
    const { last, size } = this.#chunks;
    if (last.childElementCount >= size || this.#weight >= size * HEAVY) {
      this.#chunks.begin();
      this.#weight = 0;
    }
    this.#chunks.last.append(row);
  }

  /**
   * Put rows before another one, or after the last one.
   * @param {Element[]} rows
   * @param {Element | null} before
   */
  insert(rows, before) {
    if (before === null) {
      for (const row of rows) this.append(row);
      return;
    }
    before.before(...rows);
    const chunk = before.parentElement;
    if (chunk !== null && chunk.childElementCount >= CROWDED) this.#split(chunk, before);
  }

  /**
   * Take what stands before a row out of a chunk that has become too large.
   * @param {HTMLElement} chunk
   * @param {Element} row
   */
  #split(chunk, row) {
    const rows = [...chunk.children];
    this.#chunks.cut(chunk, rows.slice(0, rows.indexOf(row)));
  }
}

/**
 * Guess how many lines on the screen the rows of a chunk take.
 * @param {Element} chunk
 */
function height(chunk) {
  let lines = 0;
  for (const { textContent } of chunk.children) {
    lines += Math.max(1, Math.ceil(textContent.length / WIDTH));
  }
  return lines;
}

/**
 * Make a row's element.
 * @param {Row} row
 * @param {string} [kind] a class of its own
 */
export function makeRow(row, kind = "") {
  const element = make("div", { class: `row ${kind}`.trim() });
  if (row.isContinuation) element.classList.add("continued");
  else element.dataset.number = String(row.number);
  return element;
}

/**
 * What rows that may grow were filled with: a node for each token.
 * @type {WeakMap<Element, Token[]>}
 */
const filled = new WeakMap();

/**
 * Show a row's text, its tokens each in its own colour. Of a row that has grown, what was right
 * already stays.
 * @param {Element} element
 * @param {Token[]} tokens
 * @param {boolean} endsLine
 */
export function fillRow(element, tokens, endsLine) {
  const before = filled.get(element) ?? [];
  let same = 0;
  while (same < before.length && isSame(before[same], tokens[same])) same += 1;
  while (element.childNodes.length > same) element.lastChild?.remove();
  element.append(...tokens.slice(same).map(nodeOf));
  if (endsLine) element.append("\n"); // for who copies it; it does not make the row higher
  if (endsLine) filled.delete(element);
  else filled.set(element, tokens);
}

/**
 * @param {Token | undefined} token
 * @param {Token | undefined} other
 */
function isSame(token, other) {
  return token?.[0] === other?.[0] && token?.[1] === other?.[1];
}

/** @param {Token} token */
function nodeOf([kind, text]) {
  if (kind === null) return inOneNode(visible(text));
  const element = document.createElement("span");
  element.className = `t-${kind}`; // apart from all other classes
  addInOrder(element, visible(text));
  return element;
}

/**
 * Give a place near this one that does not cut a character in two.
 * @param {string} text
 * @param {number} place
 */
function cutAt(text, place) {
  const before = text.charCodeAt(place - 1);
  return before >= 0xd800 && before < 0xdc00 ? place + 1 : place;
}
