/**
 * Elements that follow each other, in chunks: the layout skips what is out of sight, so that what
 * is added costs the same, however much stands before it. Chunks stand in volumes, which are
 * skipped alike: or very many chunks would take their time too.
 *
 * The last two are always laid out: what is seen would move if that ended, and what is short has
 * its true height.
 */

import { make } from "../../tool-call/dom.js";

const MOST = 50; // elements of a chunk, and chunks of a volume
const HIGH = 150; // lines at which a chunk is full too
const WIDTH = 80; // characters of a line, about

/** One that is filled. */
class Filling {
  /**
   * @param {"div" | "span"} tag
   * @param {string} name
   * @param {number} high lines at which it is full
   */
  constructor(tag, name, high) {
    this.#tag = tag;
    this.#name = name;
    this.#high = high;
    this.element = this.#make();
  }

  #tag;
  #name;
  #high;
  /** The one before it. */
  /** @type {HTMLElement | null} */
  #before = null;
  #linesBefore = 0;
  lines = 0;

  get isFull() {
    return this.element.childElementCount >= MOST || this.lines >= this.#high;
  }

  /** Go on with another one. The last but one is left alone from then on. */
  next() {
    if (this.#before !== null) {
      this.#before.style.setProperty("--lines", String(Math.ceil(this.#linesBefore)));
      this.#before.classList.add("full");
    }
    this.#before = this.element;
    this.#linesBefore = this.lines;
    this.lines = 0;
    this.element = this.#make();
  }

  #make() {
    return make(this.#tag, { class: this.#name });
  }
}

export class Chunks {
  /**
   * @param {HTMLElement} element that holds them
   * @param {"div" | "span"} [tag]
   */
  constructor(element, tag = "div") {
    this.#element = element;
    this.#volume = new Filling(tag, "volume", Infinity);
    this.#chunk = new Filling(tag, "chunk", HIGH);
    this.#volume.element.append(this.last);
    element.append(this.#volume.element);
  }

  #element;
  #volume;
  #chunk;

  /** The last chunk. */
  get last() {
    return this.#chunk.element;
  }

  /**
   * Put an element behind the others.
   *
   * @param {Element} child
   */
  append(child) {
    if (this.#chunk.isFull) {
      if (this.#volume.isFull) {
        this.#volume.next();
        this.#element.append(this.#volume.element);
      }
      this.#chunk.next();
      this.#volume.element.append(this.last);
    }
    this.last.append(child);
  }

  /**
   * Say that the last chunk has become so much higher.
   *
   * @param {number} lines
   */
  weigh(lines) {
    this.#chunk.lines += lines;
    this.#volume.lines += lines;
  }
}

/**
 * Guess how many lines a text takes.
 *
 * @param {string} text without newlines
 */
export function linesOf(text) {
  return Math.ceil(text.length / WIDTH);
}
