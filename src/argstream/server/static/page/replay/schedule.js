/**
 * When each frame of a replay is due: at the pace at which it came, but long pauses may be
 * shortened, since nobody wants to wait once more for a person who came back the next morning.
 */

import { firstIndex } from "../../tool-call/halving.js";

/** The longest pause, in seconds, that is played as it was. */
export const LONGEST_PAUSE = 2;

/** The times of a replay, in seconds since it began. */
export class Schedule {
  /** When each frame is due, as recorded and with pauses shortened. @type {number[]} */
  #recorded = [];
  /** @type {number[]} */
  #shortened = [];
  /** @type {number | null} */
  #last = null;

  /** Whether pauses are shortened. */
  isShortened = true;

  /** @param {number} time when the next frame came, by any clock in seconds */
  add(time) {
    const pause = this.#last === null ? 0 : Math.max(0, time - this.#last); // clocks may go back
    this.#last = time;
    this.#recorded.push((this.#recorded.at(-1) ?? 0) + pause);
    this.#shortened.push((this.#shortened.at(-1) ?? 0) + Math.min(pause, LONGEST_PAUSE));
  }

  /** How many frames there are. */
  get count() {
    return this.#recorded.length;
  }

  /** How long it takes. */
  get seconds() {
    return this.#due.at(-1) ?? 0;
  }

  /** How many seconds shortening saves. */
  get saved() {
    return (this.#recorded.at(-1) ?? 0) - (this.#shortened.at(-1) ?? 0);
  }

  /** When a frame is due; the start for one before the first. @param {number} index */
  at(index) {
    return this.#due[index] ?? 0;
  }

  /** How many frames are due by then. @param {number} seconds */
  countBy(seconds) {
    return firstIndex(this.#due, (due) => due > seconds);
  }

  get #due() {
    return this.isShortened ? this.#shortened : this.#recorded;
  }
}
