/**
 * The line that says how a run stands, in words and numbers; its height never changes.
 */

import { make, setText } from "../../tool-call/dom.js";
import { countOf, durationWords } from "../../tool-call/words.js";
import { exactly } from "../times.js";
import { isOver, statusWords } from "../wording.js";

/** @typedef {import("../../argstream.js").Run} Run */

export class RunBar {
  /** @param {{ status: string, created: number, updated?: number }} info */
  constructor(info) {
    this.#to = info.updated ?? info.created;
    this.element = make(
      "div",
      { class: "run-bar", role: "group", "aria-label": "This run" },
      make("span", { class: "run-status" }, this.#glyph, this.#word),
      this.#time,
      this.#tokens,
      this.waterfall,
      this.replay,
    );
    this.begun(info.created);
    this.#setStatus(info.status);
  }

  waterfall = panelButton("Waterfall");
  replay = panelButton("Replay");

  #from = 0;
  #to;
  #glyph = make("span", { class: "glyph", "aria-hidden": "true" });
  #word = make("span");
  #time = make("time");
  #tokens = make("span", { class: "run-tokens" });
  #status = "";
  #isReplayed = false;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #ticking;

  /** @param {number} created when it began, in seconds since 1970 */
  begun(created) {
    this.#from = created;
    this.#time.title = exactly(created);
    this.#tick();
  }

  /** @param {Run} run */
  show(run) {
    this.#from = run.startedAt ?? this.#from;
    this.#to = Math.max(this.#to, run.endedAt ?? run.time);
    const { input_tokens: read, output_tokens: written } = run.usage;
    const total = (read ?? 0) + (written ?? 0);
    this.#tokens.textContent = total > 0 ? countOf(total, "token") : "";
    const parts = [];
    if (read !== null) parts.push(`${countOf(read, "token")} read`);
    if (written !== null) parts.push(`${countOf(written, "token")} written`);
    this.#tokens.title = parts.join(", ");
    this.#setStatus(run.status);
  }

  /**
   * Show that it is played again below: how it stands now would be taken for how it stood then.
   *
   * @param {boolean} isReplayed
   */
  setReplayed(isReplayed) {
    this.#isReplayed = isReplayed;
    this.replay.setAttribute("aria-expanded", String(isReplayed));
    this.element.classList.toggle("is-replayed", isReplayed);
    this.#showStatus();
  }

  /** Show that nothing more is heard of the run. */
  fail() {
    this.#setStatus("failed");
  }

  close() {
    clearInterval(this.#ticking);
    this.#ticking = undefined;
  }

  /** @param {string} status */
  #setStatus(status) {
    if (status !== this.#status) {
      this.#status = status;
      this.#showStatus();
      this.close();
      if (!isOver(status)) this.#ticking = setInterval(() => this.#tick(), 1000);
    }
    this.#tick();
  }

  #showStatus() {
    const status = this.#isReplayed ? "replayed" : this.#status;
    const { glyph, word } = statusWords(status);
    this.element.dataset.status = status;
    this.#glyph.textContent = glyph;
    this.#word.textContent = word;
  }

  #tick() {
    const now = isOver(this.#status) ? this.#to : Math.max(this.#to, Date.now() / 1000);
    setText(this.#time, durationWords(Math.floor(now - this.#from), 0));
  }
}

/** @param {string} text */
function panelButton(text) {
  return make("button", { class: "quiet small", type: "button", text, "aria-expanded": "false" });
}
