/**
 * Where one writes: what is typed is never lost, neither by a refusal nor by a reload.
 */

import { visible } from "../tool-call/visible.js";
import { keep, kept } from "./keeping.js";
import { part } from "./parts.js";
import { problemWords } from "./wording.js";

const HINT = "Enter sends, Shift+Enter makes a line";
const WORKS = "The agent still works: wait for it, or stop it first.";
const ASKS = "A call waits for your decision: decide first, or stop the run.";

export class Composer {
  /**
   * @param {object} options
   * @param {(message: string) => Promise<void>} options.onSend rejects with why it was not taken
   * @param {() => Promise<void>} options.onStop
   * @param {() => void} options.onNext go to the next call that asks
   * @param {(sentence: string) => void} options.say
   */
  constructor({ onSend, onStop, onNext, say }) {
    this.#onSend = onSend;
    this.#onStop = onStop;
    this.#say = say;
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.#field.addEventListener("keydown", (event) => this.#pressed(event));
    this.#field.addEventListener("input", () => this.#typed());
    this.#stop.addEventListener("click", () => this.#end());
    this.#next.addEventListener("click", onNext);
  }

  #onSend;
  #onStop;
  #say;
  #form = part("composer", HTMLFormElement);
  #field = part("message", HTMLTextAreaElement);
  #send = part("send", HTMLButtonElement);
  #stop = part("stop", HTMLButtonElement);
  #problem = part("composer-problem", HTMLElement);
  #hint = part("hint", HTMLElement);
  #next = part("next-asking", HTMLElement);
  #isBusy = false;
  #isRunning = false;
  #asking = 0;
  /** Why the message has to wait, if somebody was told so. */
  #wait = "";
  #place = "";

  /**
   * Take up what was being written in a conversation.
   *
   * @param {string} conversation "" is a new one
   */
  moveTo(conversation) {
    if (this.#place === `argstream.draft.${conversation}`) return;
    this.#place = `argstream.draft.${conversation}`;
    this.#field.value = kept("sessionStorage", this.#place);
    this.#showProblem("");
    this.#grow();
  }

  /** @param {string} message */
  fill(message) {
    this.#field.value = message;
    this.#typed();
    this.focus();
  }

  focus() {
    this.#field.focus();
  }

  /**
   * Show how the newest run stands.
   *
   * @param {{ isRunning: boolean, asking: number, isLost: boolean }} state isLost: the connection
   */
  show({ isRunning, asking, isLost }) {
    const gone = [isRunning ? this.#send : this.#stop, ...(asking === 0 ? [this.#next] : [])];
    const hadFocus = gone.some((button) => document.activeElement === button);
    this.#isRunning = isRunning;
    this.#asking = asking;
    this.#send.hidden = isRunning;
    this.#stop.hidden = !isRunning;
    if (!isRunning) this.#stop.ariaDisabled = "false";
    this.#next.hidden = asking === 0;
    this.#hint.textContent = hintWords({ isRunning, asking, isLost });
    if (this.#wait !== "" && this.#wait !== this.#reason) this.#showProblem("");
    if (hadFocus) this.focus(); // or it would be lost with the button
  }

  /** Why a message cannot be sent now, or "". */
  get #reason() {
    if (!this.#isRunning) return "";
    return this.#asking > 0 ? ASKS : WORKS;
  }

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    const isPlain = !event.shiftKey && !event.altKey && !event.ctrlKey && !event.metaKey;
    if (event.key !== "Enter" || !isPlain || event.isComposing) return;
    event.preventDefault();
    this.#submit();
  }

  #typed() {
    keep("sessionStorage", this.#place, this.#field.value);
    this.#showProblem("");
    this.#grow();
  }

  /** Fit the field to its text, where the browser does not do that by itself. */
  #grow() {
    if (CSS.supports("field-sizing", "content")) return;
    this.#field.style.setProperty("height", "auto");
    this.#field.style.setProperty("height", `${this.#field.scrollHeight}px`);
  }

  async #submit() {
    const message = this.#field.value;
    if (message.trim() === "" || this.#isBusy) return;
    if (this.#isRunning) {
      this.#showProblem(this.#reason);
      this.#wait = this.#reason;
      this.#problem.classList.add("is-note"); // nothing went wrong
      return;
    }
    this.#setBusy(true);
    const place = this.#place;
    try {
      await this.#onSend(message);
      keep("sessionStorage", place, "");
      if (this.#field.value === message) this.#field.value = "";
      this.#showProblem("");
      this.#grow();
    } catch (problem) {
      this.#showProblem(problemWords(problem));
    } finally {
      this.#setBusy(false);
    }
  }

  async #end() {
    if (this.#stop.ariaDisabled === "true") return;
    this.#stop.ariaDisabled = "true"; // disabled, it would lose the focus
    try {
      await this.#onStop();
    } catch (problem) {
      this.#stop.ariaDisabled = "false";
      this.#showProblem(problemWords(problem));
    }
  }

  /** @param {boolean} isBusy */
  #setBusy(isBusy) {
    this.#isBusy = isBusy;
    this.#form.toggleAttribute("aria-busy", isBusy);
    this.#send.ariaDisabled = String(isBusy);
  }

  /** @param {string} words */
  #showProblem(words) {
    const shown = visible(words);
    this.#wait = "";
    this.#problem.classList.remove("is-note");
    this.#problem.textContent = shown;
    this.#problem.hidden = shown === "";
    if (shown === "") {
      this.#field.removeAttribute("aria-describedby");
    } else {
      this.#field.setAttribute("aria-describedby", this.#problem.id);
      this.#say(shown);
    }
  }
}

/** @param {{ isRunning: boolean, asking: number, isLost: boolean }} state */
function hintWords({ isRunning, asking, isLost }) {
  if (asking > 0) return asking === 1 ? "A call asks" : `${asking} calls ask`;
  if (!isRunning) return HINT;
  // What it does by now, nobody here knows.
  if (isLost) return "It was working when the connection was lost";
  return "The agent works; you can write meanwhile";
}
