/**
 * What can be opened below a run's bar: its waterfall, and its replay in place of its blocks.
 *
 * Their code is loaded when somebody first asks for it.
 */

import { make } from "../../tool-call/dom.js";
import { problemWords } from "../wording.js";
import { RunView } from "./run-view.js";

/** @typedef {import("../../argstream.js").Client} Client */
/** @typedef {import("../../argstream.js").Frame} Frame */
/** @typedef {import("./run-bar.js").RunBar} RunBar */
/** @typedef {import("../replay/replay.js").Replay} Replay */
/** @typedef {import("../waterfall/panel.js").WaterfallPanel} WaterfallPanel */

/**
 * Somebody wants to see how something goes on: where that begins, and how far it has come; or
 * nothing any more.
 *
 * @typedef {(shown: { element: HTMLElement, end: () => Element } | null) => void} Follow
 */

export class RunPanels {
  /**
   * @param {object} options
   * @param {Client} options.client
   * @param {string} options.runId
   * @param {RunBar} options.bar with the buttons that open them
   * @param {HTMLElement} options.live what is hidden during a replay
   * @param {() => void} options.onChange something is going to be shown
   * @param {Follow} options.onFollow
   */
  constructor({ client, runId, bar, live, onChange, onFollow }) {
    this.#client = client;
    this.#runId = runId;
    this.#bar = bar;
    this.#live = live;
    this.#onChange = onChange;
    this.#onFollow = onFollow;
    this.element = make("div", { class: "run-panels" });
    bar.waterfall.addEventListener("click", () => this.#try(() => this.#toggleWaterfall()));
    bar.replay.addEventListener("click", () => this.#try(() => this.#toggleReplay()));
  }

  #client;
  #runId;
  #bar;
  #live;
  #onChange;
  #onFollow;
  /** @type {WaterfallPanel | null} */
  #waterfall = null;
  /** @type {Replay | null} */
  #replay = null;
  #isWaterfallOpen = false;
  /** Of the last live frame. */
  #seq = 0;
  /** @type {HTMLElement | null} */
  #problem = null;

  /** @param {Frame} frame that was received */
  take(frame) {
    this.#seq = frame.seq;
    if (this.#isWaterfallOpen) this.#waterfall?.take(frame);
  }

  close() {
    if (this.#isWaterfallOpen) this.#waterfall?.close();
    this.leaveReplay();
  }

  /** @returns {boolean} whether there was one */
  leaveReplay() {
    if (this.#replay === null) return false;
    this.#leave();
    return true;
  }

  /** @param {() => Promise<void>} open */
  async #try(open) {
    this.#problem?.remove();
    try {
      await open();
    } catch (problem) {
      this.#problem = make("p", { class: "panel-problem", text: problemWords(problem) });
      this.element.append(this.#problem);
    }
  }

  async #toggleWaterfall() {
    this.#isWaterfallOpen = !this.#isWaterfallOpen;
    this.#bar.waterfall.setAttribute("aria-expanded", String(this.#isWaterfallOpen));
    if (this.#waterfall === null) {
      const { WaterfallPanel } = await import("../waterfall/panel.js");
      this.#waterfall ??= new WaterfallPanel({ client: this.#client, runId: this.#runId });
    }
    if (this.#isWaterfallOpen) {
      this.element.prepend(this.#waterfall.element);
      this.#waterfall.open(this.#seq || undefined);
    } else {
      this.#waterfall.close();
      this.#waterfall.element.remove();
    }
  }

  async #toggleReplay() {
    if (this.leaveReplay()) return;
    const { Replay } = await import("../replay/replay.js");
    if (this.#replay !== null) return; // pressed twice while it was loaded
    const replay = (this.#replay = new Replay({
      client: this.#client,
      runId: this.#runId,
      makeView: () => new RunView(),
      onChange: this.#onChange,
      onLeave: () => this.#leave(),
    }));
    this.#bar.setReplayed(true);
    this.#live.hidden = true;
    this.element.append(replay.element);
    this.#onFollow({ element: replay.element, end: () => replay.end });
    await replay.begin();
  }

  #leave() {
    const hadFocus = this.#replay?.element.contains(document.activeElement) ?? false;
    this.#replay?.close();
    this.#replay?.element.remove();
    this.#replay = null;
    this.#live.hidden = false;
    this.#bar.setReplayed(false);
    this.#onFollow(null);
    if (hadFocus) this.#bar.replay.focus();
  }
}
