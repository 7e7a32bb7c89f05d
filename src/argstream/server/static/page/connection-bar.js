/**
 * Says that the connection is lost, when it is tried again, and lets one try at once.
 */

import { part } from "./parts.js";

/** @typedef {import("../argstream.js").Connection} Connection */

/** Shorter breaks, in milliseconds, are nobody's business. */
const PATIENCE = 700;

export class ConnectionBar {
  /**
   * @param {(sentence: string) => void} say
   * @param {() => void} onChange it is lost, or there again
   */
  constructor(say, onChange) {
    this.#say = say;
    this.#onChange = onChange;
    part("connection-now", HTMLElement).addEventListener("click", () => {
      this.#words.textContent = "Trying…";
      window.dispatchEvent(new Event("online")); // by which all that waits tries at once
    });
  }

  #say;
  #onChange;
  #element = part("connection", HTMLElement);
  #words = part("connection-words", HTMLElement);
  /** Who waits, and until when. */
  /** @type {Map<unknown, number>} */
  #waiting = new Map();
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #ticking;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #patience;

  /** Whether that is said. */
  get isLost() {
    return !this.#element.hidden;
  }

  /**
   * Hear how somebody's connection stands.
   *
   * @param {unknown} who
   * @param {Pick<Connection, "state" | "retryIn">} connection
   */
  take(who, { state, retryIn }) {
    if (state === "waiting") {
      this.#waiting.set(who, performance.now() + (retryIn ?? 0) * 1000);
      this.#lose();
    } else if (state !== "connecting" && this.#waiting.delete(who) && this.#waiting.size === 0) {
      this.#find();
    }
  }

  #lose() {
    if (this.#ticking === undefined) {
      this.#patience = setTimeout(() => this.#show(), PATIENCE);
      this.#ticking = setInterval(() => this.#tick(), 500);
    }
    this.#tick();
  }

  #show() {
    this.#element.hidden = false;
    this.#say("The connection is lost.");
    this.#onChange();
  }

  #find() {
    clearTimeout(this.#patience);
    clearInterval(this.#ticking);
    this.#ticking = undefined;
    if (this.#element.hidden) return;
    this.#element.hidden = true;
    this.#say("Connected again.");
    this.#onChange();
  }

  #tick() {
    const next = Math.min(...this.#waiting.values());
    const seconds = Math.ceil((next - performance.now()) / 1000);
    this.#words.textContent =
      seconds > 0 ? `Connection lost. Next try in ${seconds} s.` : "Connection lost. Trying…";
  }
}
