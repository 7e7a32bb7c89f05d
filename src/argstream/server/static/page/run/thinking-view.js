/**
 * What the model thinks: folded, with its length, and written into the page once it is opened.
 */

import { make } from "../../tool-call/dom.js";
import { paint } from "../../tool-call/painting.js";
import { countOf } from "../../tool-call/words.js";
import { WordsView } from "./words-view.js";

export class ThinkingView {
  constructor() {
    const summary = make("summary", {}, this.#words, " ", this.#length);
    this.element = make("details", { class: "thinking" }, summary);
    this.element.addEventListener("toggle", () => paint(this.#fill));
  }

  #words = make("span", { class: "thinking-words" });
  #length = make("span", { class: "thinking-length" });
  #text = "";
  /** @type {WordsView | null} */
  #view = null;

  /**
   * @param {string} text
   * @param {boolean} isOver
   */
  show(text, isOver) {
    this.#text = text;
    this.#words.textContent = isOver ? "Thought" : "Thinking…";
    this.#length.textContent = text === "" ? "" : countOf(text.length, "character");
    this.element.classList.toggle("is-over", isOver);
    if (this.element.open) paint(this.#fill);
  }

  /** @param {() => boolean} hasTime */
  #fill = (hasTime) => {
    if (!this.element.open) return true;
    if (this.#view === null) {
      this.#view = new WordsView();
      this.element.append(this.#view.element);
    }
    return this.#view.grow(this.#text, hasTime);
  };
}
