// The button that stands for a call, collapsed and expanded: a dot, the name, the state in words,
// and what moves while it is written. Only texts change, so nothing is laid out anew but them.

import { secondsBetween, secondsInState } from "./clock.js";
import { make, setText } from "./dom.js";
import { stateGlyph, stateWords } from "./states.js";
import { visibleLine } from "./visible.js";
import { durationWords, sizeWords } from "./words.js";

/** @import { Call } from "../argstream.js" */

/** @typedef {{ characters: number, lines: number }} Counts */

/** The pill. */
export class Head {
  #dot = make("span", { class: "dot", "aria-hidden": "true" });
  #name = make("span", { class: "name" });
  #state = make("span", { class: "state" });
  #size = make("span", { class: "size" });
  #time = make("span", { class: "time" });

  constructor() {
    /** @type {HTMLButtonElement} */
    this.element = make(
      "button",
      { class: "head", type: "button", "aria-expanded": "false", "aria-controls": "body" },
      this.#dot, this.#name, this.#state, this.#size, this.#time,
      make("span", { class: "mark", "aria-hidden": "true" }),
    );
  }

  /**
   * Show which call it is: at once, so that no pill is ever without a name.
   * @param {Call} call
   */
  introduce(call) {
    const name = visibleLine(call.name);
    setText(this.#dot, stateGlyph(call.state));
    setText(this.#name, name);
    if (this.#name.title !== name) this.#name.title = name;
    setText(this.#state, stateWords(call));
  }

  /**
   * Show a call as it is now.
   * @param {Call} call
   * @param {{ open: boolean, inner: string, counts: () => Counts }} more
   */
  update(call, { open, inner, counts }) {
    const moves = call.state === "writing" || call.state === "running";
    this.introduce(call);
    setText(this.#size, sizesOf(call, open, inner, counts));
    setText(this.#time, timeOf(call));
    // A name of a button that changes ten times a second is no name.
    this.#size.ariaHidden = this.#time.ariaHidden = moves ? "true" : null;
  }
}

/**
 * How much there is: while it is written, what has come; then in the card only.
 * @param {Call} call
 * @param {boolean} open
 * @param {string} inner
 * @param {() => Counts} counts
 */
function sizesOf(call, open, inner, counts) {
  const words = inner ? [inner] : [];
  if (call.state === "writing" || open) {
    const size = counts();
    if (size.characters) words.push(sizeWords(size));
  }
  return words.join(" · ");
}

/**
 * How long it has been written or has run.
 * @param {Call} call
 */
function timeOf(call) {
  if (call.state === "writing") return sinceWords(call, call.startedAt);
  const executedAt = call.executedAt.at(-1) ?? null;
  if (call.state === "running") return sinceWords(call, executedAt);
  const took = secondsBetween(executedAt, call.endedAt);
  return took === null ? "" : durationWords(took);
}

/**
 * How long it goes on; more than that, if nobody knows when it began.
 * @param {Call} call
 * @param {number | null} began
 */
function sinceWords(call, began) {
  return `${began === null ? "> " : ""}${durationWords(secondsInState(call))}`;
}
