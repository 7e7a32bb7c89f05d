/**
 * A run, played again as it was seen when it happened: its log is read, and its frames are given to
 * a `Run` of argstream.js when they are due, which a view shows. Going back means beginning anew: a
 * run only grows. Whatever is due is taken in slices, so that the page never stands still.
 */

import { Run } from "../../argstream.js";
import { make } from "../../tool-call/dom.js";
import { paint } from "../../tool-call/painting.js";
import { readLog } from "../log-reading.js";
import { problemWords } from "../wording.js";
import { ReplayControls } from "./controls.js";
import { Schedule } from "./schedule.js";

/** @import { Block, Client, EventFrame } from "../../argstream.js" */

/**
 * What shows a run; RunView of run-view.js is one.
 *
 * @typedef {object} View
 * @property {HTMLElement} element
 * @property {(run: Run, blocks: Block[], hasTime: () => boolean) => boolean} update false if there
 *   is more, for which it is called again
 */

const LONGEST_STEP = 1; // seconds: after a tab was asleep, it goes on where it was
const ENDS = new Set(["run_completed", "run_failed", "run_stopped"]);

/** The replay of a run. */
export class Replay {
  #client;
  #runId;
  #makeView;
  #onChange;
  #onLeave;
  #controls = new ReplayControls({
    onPlay: () => (this.#isPlaying ? this.#pause() : this.#play()),
    onSeek: (seconds) => this.#seek(seconds),
    onHold: (isHeld) => (this.#isHeld = isHeld),
    onSpeed: (speed) => (this.#speed = speed),
    onPauses: (isShortened) => this.#setPauses(isShortened),
    onRetry: () => this.begin(),
    onLeave: () => this.#leave(),
  });
  #stage = make("div", { class: "replay-stage" });
  /** @type {EventFrame[]} */
  #frames = [];
  #schedule = new Schedule();
  #run = new Run();
  /** How many frames the run has taken. */
  #taken = 0;
  /** @type {View | null} null while the run is made anew, to be shown when it is there */
  #view = null;
  #position = 0;
  #speed = 1;
  #isPlaying = false;
  #isHeld = false;
  #isClosed = false;
  #isReading = false;
  /** When the position was last moved, by the page's clock. @type {number | null} */
  #movedAt = null;

  /**
   * @param {object} options
   * @param {Pick<Client, "log" | "run">} options.client
   * @param {string} options.runId
   * @param {() => View} options.makeView in which nothing can be decided
   * @param {() => void} [options.onChange] something is going to be shown
   * @param {() => void} options.onLeave somebody wants no more of it
   */
  constructor({ client, runId, makeView, onChange = () => {}, onLeave }) {
    this.#client = client;
    this.#runId = runId;
    this.#makeView = makeView;
    this.#onChange = onChange;
    this.#onLeave = onLeave;
    this.element = make(
      "section",
      { class: "replay", "aria-label": "Replay" },
      this.#controls.element,
      this.#controls.notes,
      this.#stage,
    );
  }

  /** Read the log, as far as it goes, and play it. @returns {Promise<void>} */
  async begin() {
    if (this.#isReading || this.#isClosed) return;
    this.#isReading = true;
    this.#frames = [];
    this.#schedule = new Schedule();
    this.#controls.showProgress(0, 1);
    try {
      const { seq } = await this.#client.run(this.#runId);
      await readLog(
        this.#client,
        this.#runId,
        (frame) => this.#keep(frame, seq),
        () => !this.#isClosed,
      );
    } catch (error) {
      this.#controls.showProblem(problemWords(error));
      return;
    } finally {
      this.#isReading = false;
    }
    if (this.#isClosed) return;
    this.#controls.showReady({
      saved: this.#schedule.saved,
      isOver: ENDS.has(this.#frames.at(-1)?.event.type ?? ""),
      isEmpty: this.#frames.length === 0,
    });
    if (this.#frames.length > 0) this.#play();
  }

  /** What ends with what was played last. @returns {Element} */
  get end() {
    return this.#view?.element ?? this.#controls.element;
  }

  /** End it: nothing of it goes on. */
  close() {
    this.#isClosed = true;
  }

  /** @param {EventFrame} frame @param {number} total */
  #keep(frame, total) {
    this.#frames.push(frame);
    this.#schedule.add(frame.time);
    this.#controls.showProgress(frame.seq, total);
  }

  // What people want

  #play() {
    if (this.#position >= this.#schedule.seconds) this.#position = 0;
    this.#isPlaying = true;
    this.#movedAt = null;
    this.#goOn();
  }

  #pause() {
    this.#isPlaying = false;
    this.#goOn();
  }

  /** @param {number} seconds */
  #seek(seconds) {
    this.#position = Math.min(Math.max(0, seconds), this.#schedule.seconds);
    this.#goOn();
  }

  /** @param {boolean} isShortened */
  #setPauses(isShortened) {
    this.#schedule.isShortened = isShortened;
    this.#position = this.#schedule.at(this.#taken - 1);
    this.#goOn();
  }

  #leave() {
    this.close();
    this.#onLeave();
  }

  // Playing

  #goOn() {
    paint(this.#slice);
  }

  /** @param {() => boolean} hasTime @returns {boolean} whether there is nothing more to do */
  #slice = (hasTime) => {
    if (this.#isClosed || !this.element.isConnected) return true; // whoever took it away is done
    this.#move();
    const isDone = this.#catchUp(hasTime);
    const isAtEnd = this.#position >= this.#schedule.seconds;
    if (isDone && isAtEnd && !this.#isHeld) this.#isPlaying = false;
    this.#controls.update({
      position: this.#position,
      seconds: this.#schedule.seconds,
      isPlaying: this.#isPlaying,
      isHeld: this.#isHeld,
    });
    return isDone && !this.#isPlaying;
  };

  /** Let time pass; not while there is something to catch up with. */
  #move() {
    const now = performance.now();
    const before = this.#movedAt ?? now;
    const isBehind = this.#taken < this.#schedule.countBy(this.#position);
    this.#movedAt = now;
    if (!this.#isPlaying || this.#isHeld || isBehind) return;
    const step = Math.min((now - before) / 1000, LONGEST_STEP) * this.#speed;
    this.#position = Math.min(this.#position + step, this.#schedule.seconds);
  }

  /**
   * Take what is due, as long as there is time, and show it.
   *
   * @param {() => boolean} hasTime
   * @returns {boolean} whether all that is due is shown
   */
  #catchUp(hasTime) {
    const due = Math.max(1, this.#schedule.countBy(this.#position));
    if (this.#taken > due) {
      this.#run = new Run(this.#runId);
      this.#taken = 0;
      this.#view = null;
    }
    /** @type {Set<Block>} */
    const changed = new Set();
    while (this.#taken < due && hasTime()) {
      const frame = /** @type {EventFrame} */ (this.#frames[this.#taken]);
      for (const block of this.#run.take(frame)) changed.add(block);
      this.#taken += 1;
    }
    const isDone = this.#taken >= due;
    if (this.#view === null) return isDone && this.#showAnew(hasTime);
    if (changed.size > 0) this.#onChange();
    return this.#view.update(this.#run, [...changed], hasTime) && isDone;
  }

  /**
   * Show the run in a new view. The old one stood until now, and nothing below it may jump.
   *
   * @param {() => boolean} hasTime
   */
  #showAnew(hasTime) {
    const view = (this.#view = this.#makeView());
    const isShown = view.update(this.#run, this.#run.blocks, hasTime);
    this.#stage.style.setProperty("--height", `${this.#stage.offsetHeight}px`);
    this.#stage.replaceChildren(view.element);
    this.#onChange();
    return isShown;
  }
}
