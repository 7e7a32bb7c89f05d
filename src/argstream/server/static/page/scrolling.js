/**
 * Who reads at the end stays at the end while it grows; who reads elsewhere is left in peace.
 */

import { afterPainting } from "../tool-call/painting.js";
import { part } from "./parts.js";

/** So near to the end that one is there. */
const NEAR = 40;
/** Room below what is followed, so that it is not at the very edge. */
const MARGIN = 24;
/** What is unfolded within this time was unfolded by the reader. */
const UNFOLDING = 500;
/** Frames in which what has come is shown: calls are painted after their run, and in slices. */
const FRAMES = 30;

export class Scrolling {
  constructor() {
    const content = part("conversation", HTMLElement);
    this.#scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    content.addEventListener("click", (event) => this.#clicked(event), { capture: true });
    this.#button.addEventListener("click", () => {
      this.toEnd();
      this.#scroller.focus({ preventScroll: true }); // the button goes away
    });
    const observer = new ResizeObserver(() => this.#resized());
    observer.observe(content);
    observer.observe(this.#scroller);
  }

  /**
   * What is followed in place of the end of all: gives what ends where one reads.
   *
   * @type {(() => Element) | null}
   */
  #end = null;
  #scroller = part("scroller", HTMLElement);
  #button = part("newest", HTMLElement);
  #isAtEnd = true;
  #top = 0;
  #unfolded = -Infinity;
  #frames = 0;

  /** Go to the end, and stay there. */
  toEnd() {
    this.#end = null;
    this.#isAtEnd = true;
    this.#follow();
  }

  /**
   * Something has come, which is going to be shown. The end is followed in the very frames in which
   * it moves: the observer would be right too, but browsers count what it moves as a jump.
   */
  expect() {
    this.#frames = FRAMES;
    afterPainting(this.#painted);
  }

  #painted = () => {
    this.#resized();
    if (--this.#frames > 0) afterPainting(this.#painted);
  };

  /**
   * Go to where something begins, and stay at its end while it grows.
   *
   * @param {{ element: HTMLElement, end: () => Element } | null} shown null: it is gone
   */
  follow(shown) {
    if (shown === null) {
      this.#end = null;
      this.#isAtEnd = this.#distance() < NEAR;
      return;
    }
    this.toStart(shown.element);
    this.#end = shown.end;
    this.#isAtEnd = true;
    this.#unfolded = -Infinity; // that was the button, and this is why it was pressed
  }

  /**
   * Put something in above what is read, which stays where it is: browsers see to that themselves,
   * but not at the very top.
   *
   * @param {HTMLElement} read
   * @param {() => void} change
   */
  keepPlace(read, change) {
    const before = read.getBoundingClientRect().top;
    change();
    this.#scroller.scrollTop += read.getBoundingClientRect().top - before;
    this.#scrolled();
  }

  /**
   * Go to where something begins.
   *
   * @param {HTMLElement} element
   */
  toStart(element) {
    this.#end = null;
    this.#isAtEnd = false;
    element.scrollIntoView({ block: "start" });
    this.#scrolled();
  }

  #scrolled() {
    const top = this.#scroller.scrollTop;
    if (this.#distance() < NEAR) this.#isAtEnd = true;
    else if (top < this.#top) this.#isAtEnd = false;
    this.#top = top;
    this.#show();
  }

  #resized() {
    if (performance.now() - this.#unfolded < UNFOLDING) {
      this.#isAtEnd = this.#distance() < NEAR;
    }
    if (this.#isAtEnd) this.#follow();
    this.#show();
  }

  /** @param {Event} event */
  #clicked(event) {
    const unfolds = event.composedPath().some((target) => {
      if (!(target instanceof Element)) return false;
      return target.localName === "summary" || target.hasAttribute("aria-expanded");
    });
    if (unfolds) this.#unfolded = performance.now();
  }

  #follow() {
    const distance = this.#distance();
    if (this.#end === null) this.#scroller.scrollTop = this.#scroller.scrollHeight;
    else if (distance > 0) this.#scroller.scrollTop += distance;
    this.#top = this.#scroller.scrollTop;
    this.#show();
  }

  #distance() {
    const end = this.#end?.();
    if (end?.isConnected) {
      const { bottom } = this.#scroller.getBoundingClientRect();
      return end.getBoundingClientRect().bottom + MARGIN - bottom;
    }
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    return scrollHeight - scrollTop - clientHeight;
  }

  #show() {
    this.#button.hidden = this.#isAtEnd || this.#distance() < NEAR;
  }
}
