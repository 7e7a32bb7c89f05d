/**
 * The sign-in form. The browser keeps a digest of the token in a cookie that scripts cannot read.
 */

import { ServerProblem } from "../argstream.js";
import { visible } from "../tool-call/visible.js";
import { part } from "./parts.js";
import { problemWords } from "./wording.js";

/** @typedef {import("../argstream.js").Client} Client */

const WRONG_LINK = "The token in the link is wrong. Enter the token of this server.";

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

  /** Whether the form is shown. */
  get isAsking() {
    return this.#dialog.open;
  }

  /** Ask for the token, unless that is being done. */
  ask() {
    if (!this.#dialog.open) this.#dialog.showModal();
  }

  /**
   * Sign in with the token of a link; if it is wrong, ask for another.
   *
   * @param {string} token
   */
  async useLink(token) {
    try {
      await this.#client.signIn(token);
    } catch (problem) {
      const isWrong = problem instanceof ServerProblem && problem.status === 401;
      this.ask();
      this.#showProblem(isWrong ? WRONG_LINK : problemWords(problem));
      return;
    }
    this.#finish();
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
    this.#finish();
  }

  #finish() {
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
