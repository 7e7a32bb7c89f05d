// A long list in chunks: the layout skips those that are out of sight, so that what is added costs
// the same, however much stands before it. After the first ones, chunks stand in volumes, which are
// skipped alike: or very many chunks would take their time too.
//
// The chunk that grows and the one before it may well be in sight. These are laid out, since what
// is seen would move if the layout began to skip it. Volumes may be skipped from their beginning:
// what grows below all that is seen need not be laid out only to be skipped then.

import { make } from "./dom.js";

const MOST = 50; // elements of a chunk, and chunks of a volume

export class Chunks {
  /**
   * @param {HTMLElement} element the list
   * @param {(chunk: HTMLElement) => number} height how many lines on the screen a chunk
   *   takes, about
   */
  constructor(element, height) {
    this.#element = element;
    this.#height = height;
    this.#volume = element; // most lists are short, and need no volume
    this.last = this.#add();
  }

  #element;
  #height;
  #volume;
  /** @type {HTMLElement | null} */
  #complete = null; // the chunk before the last
  /** How many lines chunks that may be skipped take, and volumes for these. */
  /** @type {WeakMap<HTMLElement, number>} */
  #lines = new WeakMap();

  /** How many elements the last chunk may have. */
  get size() {
    return MOST;
  }

  /** Begin a further chunk. */
  begin() {
    if (this.#complete !== null) this.#close(this.#complete);
    if (this.#volume.childElementCount >= MOST) {
      this.#volume = make("div", { class: "volume full" });
      this.#element.append(this.#volume);
    }
    this.#complete = this.last;
    this.last = this.#add();
  }

  /**
   * Take elements out of the beginning of a chunk that has become too large.
   * @param {HTMLElement} chunk
   * @param {Element[]} elements
   */
  cut(chunk, elements) {
    for (let at = 0; at < elements.length; at += MOST) {
      const part = make("div", { class: "chunk" });
      part.append(...elements.slice(at, at + MOST));
      chunk.before(part);
      this.#close(part);
    }
    if (chunk !== this.last && chunk !== this.#complete) this.#close(chunk);
  }

  #add() {
    const chunk = make("div", { class: "chunk" });
    this.#volume.append(chunk);
    return chunk;
  }

  /**
   * Let the layout skip a chunk while it is out of sight, and tell how high it will be, about.
   * @param {HTMLElement} chunk
   */
  #close(chunk) {
    chunk.classList.add("full");
    const more = this.#height(chunk) - (this.#lines.get(chunk) ?? 0);
    this.#heighten(chunk, more);
    const volume = chunk.parentElement;
    if (volume !== null && volume !== this.#element) this.#heighten(volume, more);
  }

  /**
   * @param {HTMLElement} element
   * @param {number} more lines
   */
  #heighten(element, more) {
    const lines = (this.#lines.get(element) ?? 0) + more;
    this.#lines.set(element, lines);
    // Not by a property of our own: those are inherited, and all that is in it would be looked at.
    element.style.setProperty("contain-intrinsic-height", `auto ${1.5 * lines}em`);
  }
}
