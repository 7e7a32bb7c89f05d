/**
 * One run in the list: a link with its prompt, how it stands and when it was, and its deletion.
 *
 * Only what is different is written: focus, selection and scroll position stay.
 */

import { make, setText } from "../../tool-call/dom.js";
import { visibleLine } from "../../tool-call/visible.js";
import { runLink } from "../routes.js";
import { ago, exactly } from "../times.js";
import { problemWords, statusWords } from "../wording.js";

/** @typedef {import("../../argstream.js").RunInfo} RunInfo */

/** After this time, a press on the button is a first one again. */
const SURE = 4000;
/** And before this, it is the second half of a double click. */
const HASTY = 500;

export class RunRow {
  /**
   * @param {RunInfo} info
   * @param {(runId: string) => Promise<void>} forget
   */
  constructor(info, forget) {
    this.info = info;
    this.#forget = forget;
    this.#link = make(
      "a",
      { class: "row-link", href: runLink(info.run) },
      this.#title,
      make("span", { class: "row-about" }, this.#glyph, this.#word, this.#time),
    );
    this.#delete.addEventListener("click", (event) => this.#pressed(event));
    this.#delete.addEventListener("keydown", (event) => this.#keyed(event));
    for (const leaving of ["blur", "pointerleave"]) {
      this.#delete.addEventListener(leaving, () => this.#setSure(false));
    }
    this.element = make("li", { class: "row" }, this.#link, this.#delete, this.#problem);
    this.show(info);
    this.#setSure(false);
  }

  #forget;
  #title = make("span", { class: "row-title", dir: "auto" });
  #glyph = make("span", { class: "glyph", "aria-hidden": "true" });
  #word = make("span", { class: "row-word" });
  #time = make("time", { class: "row-time" });
  #link;
  #delete = make("button", { class: "row-delete quiet small", type: "button" });
  #problem = make("p", { class: "row-problem", hidden: true });
  #isSure = false;
  #asked = 0;
  #isBusy = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /** @param {RunInfo} info */
  show(info) {
    this.info = info;
    const { glyph, word } = statusWords(info.status);
    setText(this.#title, visibleLine(firstWords(info.prompt)));
    setText(this.#glyph, glyph);
    setText(this.#word, info.pending.length > 0 ? statusWords("paused").word : word);
    setText(this.#time, ago(info.updated));
    const exact = exactly(info.updated);
    if (this.#time.title !== exact) this.#time.title = exact;
    if (this.element.dataset.status !== info.status) this.element.dataset.status = info.status;
  }

  /** @param {boolean} isCurrent */
  setCurrent(isCurrent) {
    if (isCurrent) this.#link.setAttribute("aria-current", "true");
    else this.#link.removeAttribute("aria-current");
  }

  /** @param {KeyboardEvent} event */
  #keyed(event) {
    if (event.repeat) event.preventDefault(); // a key that is held down is no second press
    if (event.key !== "Escape" || !this.#isSure) return;
    event.preventDefault(); // or the dialog would close that it may stand in
    this.#setSure(false);
  }

  /** @param {MouseEvent} event */
  async #pressed(event) {
    if (this.#isBusy) return;
    this.#problem.hidden = true;
    if (!this.#isSure) {
      this.#asked = event.timeStamp;
      this.#setSure(true);
      return;
    }
    if (event.timeStamp - this.#asked < HASTY || event.detail > 1) return;
    this.#setSure(false);
    this.#isBusy = true;
    this.#delete.ariaDisabled = "true"; // disabled, it would lose the focus
    try {
      await this.#forget(this.info.run);
    } catch (problem) {
      this.#problem.textContent = visibleLine(problemWords(problem));
      this.#problem.hidden = false;
    } finally {
      this.#isBusy = false;
      this.#delete.ariaDisabled = "false";
    }
  }

  /** @param {boolean} isSure */
  #setSure(isSure) {
    this.#isSure = isSure;
    clearTimeout(this.#timer);
    if (isSure) this.#timer = setTimeout(() => this.#setSure(false), SURE);
    this.#delete.classList.toggle("is-sure", isSure);
    this.#delete.textContent = isSure ? "Sure?" : "Delete";
    const name = visibleLine(firstWords(this.info.prompt));
    this.#delete.setAttribute("aria-label", `${isSure ? "Really delete" : "Delete"}: ${name}`);
  }
}

/** @param {string} prompt */
function firstWords(prompt) {
  const words = prompt.trim().replaceAll(/[ \t\r\n]+/g, " ");
  return words === "" ? "(no words)" : words;
}
