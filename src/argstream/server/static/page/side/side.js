/**
 * Where the list of runs stands: beside the conversation, or, where that is narrow, in a dialog.
 */

import { part } from "../parts.js";

export class Side {
  constructor() {
    const narrow = matchMedia("(max-width: 47.99rem)");
    narrow.addEventListener("change", () => this.#place(narrow.matches));
    this.#place(narrow.matches);
    part("side-open", HTMLElement).addEventListener("click", () => {
      this.#dialog.showModal();
      this.#side.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
    });
    part("side-close", HTMLElement).addEventListener("click", () => this.close());
    this.#dialog.addEventListener("click", (event) => {
      // Beside it: the backdrop belongs to the dialog. And on a link: there it leads.
      const target = /** @type {Element} */ (event.target);
      if (target === this.#dialog || target.closest("a") !== null) this.close();
    });
  }

  #dialog = part("side-dialog", HTMLDialogElement);
  #side = part("side", HTMLElement);
  #asks = part("side-asks", HTMLElement);
  #titles = [part("title", HTMLElement), part("top-title", HTMLElement)];

  close() {
    if (this.#dialog.open) this.#dialog.close();
  }

  /** @param {number} count of runs that wait for a decision */
  showAsking(count) {
    this.#asks.hidden = count === 0;
    this.#asks.textContent = count === 1 ? "1 asks" : `${count} ask`;
  }

  /** @param {string} title */
  showTitle(title) {
    for (const element of this.#titles) element.textContent = title;
  }

  /** @param {boolean} isNarrow */
  #place(isNarrow) {
    this.close();
    (isNarrow ? this.#dialog : part("side-place", HTMLElement)).append(this.#side);
  }
}
