// What the sub-agent of a call says: slotted by the page, so that it can be styled and found there.
// Here it is only framed, and its calls are counted, those that ask among them.

import { make } from "./dom.js";
import { countOf } from "./words.js";

/** The place for it. */
export class InnerCalls {
  #host;
  #onChange;
  #slot = make("slot");
  #observer = new MutationObserver((changes) => this.#changed(changes));
  #calls = 0;
  #asking = 0;

  /**
   * @param {HTMLElement} host
   * @param {() => void} onChange
   */
  constructor(host, onChange) {
    this.#host = host;
    this.#onChange = onChange;
    this.element = make("div", { class: "inner", hidden: true }, this.#slot);
  }

  /** How many calls it made, and how many of them ask. */
  get words() {
    if (!this.#calls) return "";
    const asking = this.#asking ? `, ${this.#asking} asking` : "";
    return countOf(this.#calls, "call") + asking;
  }

  /** Look out for what comes. */
  connect() {
    this.#observer.observe(this.#host, {
      childList: true, subtree: true, attributes: true, attributeFilter: ["state"],
    });
    this.#count();
  }

  /** Look out no longer. */
  disconnect() {
    this.#observer.disconnect();
  }

  /** @param {MutationRecord[]} changes */
  #changed(changes) {
    // Text that grows is told here too, and changes no number.
    const matters = changes.some(
      ({ type, target, addedNodes, removedNodes }) =>
        type === "attributes"
          ? target !== this.#host
          : [...addedNodes, ...removedNodes].some((node) => node instanceof Element),
    );
    if (matters) this.#count();
  }

  #count() {
    const calls = [...this.#host.querySelectorAll("tool-call")].filter(
      (call) => call.parentElement?.closest("tool-call") === this.#host,
    );
    const asking = [...this.#host.querySelectorAll("tool-call[state=pending]")].length;
    this.element.hidden = this.#slot.assignedElements().length === 0;
    if (calls.length === this.#calls && asking === this.#asking) return;
    this.#calls = calls.length;
    this.#asking = asking;
    this.#onChange();
  }
}
