// A button that decides. A press of it counts only if it can have been meant for it: if the button
// has been there for a moment, with what it is about, and has not just come under a pointer that
// was about to press something else. The words of a model move what is on the screen, so whoever
// writes them could aim.
//
// A press by keyboard goes to what has the focus, wherever that is: there, only the moment counts.

import { make } from "./dom.js";

const SHOWN = 400; // milliseconds for which it must have been possible to press it
const STILL = 300; // and for which it must have stood where it is, for a pointer
const OFTEN = 100; // milliseconds between two looks at where it is

/** @type {Set<DecisiveButton>} */
const watched = new Set();
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

/**
 * @typedef {object} Deciding
 * @property {() => void} press
 * @property {() => boolean} mayPress whether it is possible to decide, for all that is known
 * @property {() => void} refuse called if a press does not count because the button has moved
 */

/** The button. */
export class DecisiveButton {
  #deciding;
  /** @type {number | null} */
  #since = null; // when it was first seen that it can be pressed
  #place = ""; // where it was last seen,
  #placed = 0; // and since when

  /**
   * @param {string} text
   * @param {string} looks class names
   * @param {Deciding} deciding
   */
  constructor(text, looks, deciding) {
    this.#deciding = deciding;
    this.element = make("button", { type: "button", class: `act ${looks}`, text });
    this.element.addEventListener("click", (event) => this.#clicked(event));
    this.watch();
  }

  /** Look at it from time to time, for as long as it is on the page. */
  watch() {
    watched.add(this);
    timer ??= setTimeout(lookAtAll, OFTEN);
    this.#show(performance.now());
  }

  /** Something about it is new: it has to be shown for a moment before it can be pressed. */
  restart() {
    this.#since = null;
    this.#show(performance.now());
  }

  /**
   * See whether it can be pressed, and where it is.
   * @param {DOMRect} rectangle
   */
  look({ x, y, width, height }) {
    const now = performance.now();
    const place = `${x} ${y} ${width} ${height}`;
    if (place !== this.#place) {
      this.#place = place;
      this.#placed = now;
    }
    const isShown = width > 0 && !document.hidden;
    if (!isShown || !this.#deciding.mayPress()) this.#since = null;
    else this.#since ??= now;
    this.#show(now);
  }

  /** @param {number} now */
  #show(now) {
    const mayPress = this.#deciding.mayPress();
    const isReady = mayPress && this.#since !== null && now - this.#since >= SHOWN;
    const disabled = isReady ? null : "true";
    if (this.element.ariaDisabled !== disabled) this.element.ariaDisabled = disabled;
    this.element.classList.toggle("soon", mayPress && !isReady);
  }

  /** @param {MouseEvent} event */
  #clicked(event) {
    const isReadyBefore = this.#since;
    this.look(this.element.getBoundingClientRect());
    // When it was pressed, not when the page came to look at it: it may have been busy.
    const then = Math.min(event.timeStamp, performance.now());
    if (this.#since === null || isReadyBefore === null || then - isReadyBefore < SHOWN) return;
    const isByPointer = event.detail > 0;
    if (isByPointer && (event.detail > 1 || then - this.#placed < STILL)) this.#deciding.refuse();
    else this.#deciding.press();
  }
}

/** All in one go, and before anything is changed, so that the layout is computed once. */
function lookAtAll() {
  timer = undefined;
  for (const one of watched) if (!one.element.isConnected) watched.delete(one);
  const all = [...watched];
  const rectangles = all.map((one) => one.element.getBoundingClientRect());
  all.forEach((one, at) => one.look(/** @type {DOMRect} */ (rectangles[at])));
  if (watched.size) timer = setTimeout(lookAtAll, OFTEN);
}

// Who comes back to a page has to see it first.
document.addEventListener("visibilitychange", () => {
  for (const one of watched) one.restart();
});
