// A scroll area that stays at its end while it grows, unless its reader has gone somewhere else.

import { afterPainting } from "./painting.js";

const NEAR = 24; // pixels from the end, at which a reader who comes back is taken along again
const READING = ["wheel", "touchmove", "pointerdown", "keydown"]; // what a reader does to scroll

export class Following {
  /** @param {HTMLElement} element the scroll area */
  constructor(element) {
    this.#element = element;
    element.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    /** @param {Event} event */
    const read = (event) => {
      this.#isRead ||= !(event instanceof KeyboardEvent && event.key === "Tab");
    };
    for (const type of READING) element.addEventListener(type, read, { passive: true });
  }

  isFollowing = true;
  #element;
  #top = 0;
  #isRead = false;

  /** Say that there is more; it is scrolled to when the frame's work is done. */
  grown() {
    if (this.isFollowing) afterPainting(this.#toEnd);
  }

  /** Go back to the beginning and stay there, unless a reader has chosen a place. */
  toStart() {
    if (this.#isRead || !this.isFollowing) return;
    this.isFollowing = false;
    if (this.#top > 0) this.#element.scrollTop = this.#top = 0; // else the layout would be computed
  }

  #toEnd = () => {
    if (!this.isFollowing) return;
    this.#element.scrollTop = this.#element.scrollHeight;
    this.#top = this.#element.scrollTop;
  };

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.#element;
    const rest = scrollHeight - clientHeight - scrollTop;
    // Up by a pixel is enough to leave: the first step of a smooth scroll is not larger.
    if (scrollTop < this.#top - 0.5) this.isFollowing = rest < 1;
    else if (scrollTop > this.#top) this.isFollowing ||= rest < NEAR;
    this.#top = scrollTop;
  }
}
