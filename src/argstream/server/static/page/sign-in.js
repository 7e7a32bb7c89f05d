/**
 * Asks for the token of a server that wants one; it is kept in a cookie that no script can read.
 */

import { visible } from "../tool-call/visible.js";
import { part } from "./parts.js";
import { problemWords } from "./wording.js";

/** @typedef {import("../argstream.js").Client} Client */

export class SignIn {
  /**
   * @param {object} options
   * @param {Client} options.client
   * @param {() => void} options.onSignedIn
   */
  constructor({ client, onSignedIn }) {
    this.#client = client;
    this.#onSignedIn = onSignedIn;
    // Nothing works without it.
    this.#dialog.addEventListener("cancel", (event) => event.preventDefault());
    this.#field.addEventListener("input", () => this.#showProblem(""));
    part("sign-in-form", HTMLElement).addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
  }

  #client;
  #onSignedIn;
  #dialog = part("sign-in", HTMLDialogElement);
  #field = part("token", HTMLInputElement);
  #problem = part("sign-in-problem", HTMLElement);

  /** Ask for the token, unless that is being done. */
  ask() {
    if (!this.#dialog.open) this.#dialog.showModal();
  }

  async #submit() {
    this.#showProblem("");
    try {
      await this.#client.signIn(this.#field.value);
    } catch (problem) {
      this.#showProblem(problemWords(problem));
      this.#field.select();
      return;
    }
    this.#field.value = "";
    this.#dialog.close();
    this.#onSignedIn();
  }

  /** @param {string} words "" is none */
  #showProblem(words) {
    this.#problem.textContent = visible(words);
    this.#field.ariaInvalid = String(words !== "");
  }
}
