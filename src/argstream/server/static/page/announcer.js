/**
 * The one live region of the page: few whole sentences, for who does not see what happens.
 *
 * What comes within two seconds is told together, and a sentence once.
 */

import { part } from "./parts.js";

const PAUSE = 2000;

export class Announcer {
  #region = part("announcer", HTMLElement);
  /** @type {Set<string>} */
  #waiting = new Set();
  #last = -Infinity;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /** @param {string} sentence safe to be shown */
  say(sentence) {
    this.#waiting.add(sentence);
    if (this.#timer !== undefined) return;
    // Never at once: what belongs together often comes in the same moment.
    const wait = Math.max(100, this.#last + PAUSE - performance.now());
    this.#timer = setTimeout(() => this.#tell(), wait);
  }

  #tell() {
    this.#timer = undefined;
    this.#last = performance.now();
    this.#region.textContent = [...this.#waiting].join(" ");
    this.#waiting.clear();
  }
}
