// A long list in chunks: the layout skips those that are out of sight.
//
// The chunk that grows and the one before it may well be in sight. These are laid out, since what
// is seen would move if the layout began to skip it. In a list that is very long, a browser has
// much to do for many chunks, and for what it lays out only to skip it then. So there they are
// larger, and skipped from the beginning wherever they are out of sight.

import { make } from "./dom.js";

const USUAL = 50; // elements of a chunk
const LARGE = 250; // and of those after the first ones
const FIRST = 30;

export class Chunks {
  /**
   * @param {HTMLElement} element the list
   * @param {(chunk: HTMLElement) => number} height how many lines on the screen a chunk
   *   takes, about
   */
  constructor(element, height) {
    this.#element = element;
    this.#height = height;
    this.last = this.#add(null);
  }

  #element;
  #height;
  #count = 1;
  /** @type {HTMLElement | null} */
  #complete = null; // the chunk before the last

  /** How many elements the last chunk may have. */
  get size() {
    return this.#count > FIRST ? LARGE : USUAL;
  }

  /** Begin a further chunk. */
  begin() {
    if (this.#complete !== null) this.#close(this.#complete);
    this.#complete = this.last;
    this.last = this.#add(null);
    this.#count += 1;
    if (this.#count > FIRST) this.last.classList.add("full");
  }

  /**
   * Take elements out of the beginning of a chunk that has become too large.
   * @param {HTMLElement} chunk
   * @param {Element[]} elements
   */
  cut(chunk, elements) {
    for (let at = 0; at < elements.length; at += USUAL) {
      const part = this.#add(chunk);
      part.append(...elements.slice(at, at + USUAL));
      this.#close(part);
    }
    if (chunk !== this.last && chunk !== this.#complete) this.#close(chunk);
  }

  /** @param {Element | null} before */
  #add(before) {
    const chunk = make("div", { class: "chunk" });
    this.#element.insertBefore(chunk, before);
    return chunk;
  }

  /**
   * Let the layout skip a chunk while it is out of sight, and tell how high it will be, about.
   * @param {HTMLElement} chunk
   */
  #close(chunk) {
    chunk.classList.add("full");
    // Not by a property of our own: those are inherited, and all that is in it would be looked at.
    const height = `auto calc(${this.#height(chunk)} * 1.5em)`;
    chunk.style.setProperty("contain-intrinsic-height", height);
  }
}
