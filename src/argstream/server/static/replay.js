// The replay of a run: its log, played as it was seen when it happened. The controls are one line at
// the bottom of <main>; all but the stage is inert and dimmed until the replay is closed.
//
// The frames of the log are applied to a `Run` when they are due, in slices, and a view shows it.
// Going back starts with a new run and a new view: a run only grows.

import { Run } from "./argstream.js";
import {
  button, clock, firstIndex, icon, make, paint, problemWords, readLog, setText, visibleLine,
} from "./dom.js";
/** @import { Block } from "./argstream.js" */
/** @import { RunView } from "./conversation.js" */
/** @import { LogClient } from "./dom.js" */
/** @import { EventFrame } from "./types.js" */

/**
 * @typedef {object} ReplayOptions
 * @property {LogClient} client
 * @property {string} runId
 * @property {HTMLElement} place
 * @property {() => RunView} makeView returns one in which nothing can be decided
 * @property {() => void} [onChange]
 * @property {() => void} [onClose]
 */

const SPEEDS = [0.5, 1, 2, 5, 20];
const LONGEST_PAUSE = 2; // seconds; longer pauses are shortened
const LONGEST_STEP = 1; // seconds: after a tab was asleep, the replay continues where it was
const ENDS = new Set(["run_completed", "run_failed", "run_stopped"]);
/** What is inert: all but the stage and the title. */
const REST = "#side-place, .top > :not(h1), #composer, .approvals, .newest, .earlier, "
  + ".run > :not(.run-panels)";

export class Replay {
  #options;
  #opener = document.activeElement;

  /** @type {EventFrame[]} */ #frames = [];
  #schedule = new Schedule();
  #run = new Run();
  /** How many frames the run has taken. */
  #taken = 0;
  /** Null while the run is built again from its start. @type {RunView | null} */
  #view = null;
  #position = 0;
  #isPlaying = false;
  /** Whether the slider is being dragged. */
  #isHeld = false;
  #isClosed = false;
  /** When the position last moved, in milliseconds. @type {number | null} */
  #movedAt = null;

  #play = button("", "replay-button", () => (this.#isPlaying ? this.#pause() : this.#start()));
  #slider = make("input", { type: "range", min: 0, max: 1, step: "any", "aria-label": "Position" });
  #time = make("output", { class: "replay-time", "aria-hidden": "true" });
  #speed = make(
    "select", { "aria-label": "Speed" },
    ...SPEEDS.map((speed) => make("option", { value: speed, text: `${speed}×` })),
  );
  #exit = button("", "replay-button", () => this.close());
  #retry = button("Retry", "small", () => this.#load());
  #note = make("p", { class: "replay-note", role: "status" });
  #controls = [this.#play, this.#slider, this.#time, this.#speed];
  bar = make(
    "div", { class: "replay-bar", role: "group", "aria-label": "Replay controls" },
    this.#note, ...this.#controls, this.#exit,
  );
  stage = make("section", { class: "replay-stage", "aria-label": "Replay" });

  /** @param {ReplayOptions} options */
  constructor(options) {
    this.#options = options;
    this.#speed.value = "1";
    this.#listen();
    setInert(true);
    options.place.append(this.stage);
    document.querySelector("main")?.append(this.bar);
    this.#exit.focus();
    this.#load();
  }

  /** The element that ends with what was played last. @returns {Element} */
  get end() {
    return this.#view?.element ?? this.stage;
  }

  /** Read the log as far as it goes, and play it. @returns {Promise<void>} */
  async #load() {
    this.#frames = [];
    this.#schedule = new Schedule();
    this.#say("Loading…");
    try {
      const { client, runId } = this.#options;
      const take = (/** @type {EventFrame} */ frame) => {
        this.#frames.push(frame);
        this.#schedule.add(frame.time);
      };
      await readLog(client, runId, take, () => !this.#isClosed);
    } catch (error) {
      this.#say("");
      const words = visibleLine(problemWords(error));
      this.#note.replaceChildren(`Couldn't load the recording: ${words} `, this.#retry);
      return;
    }
    if (this.#isClosed) return;
    if (this.#frames.length === 0) this.#say("Nothing to replay yet.");
    else {
      this.#say("", true);
      this.#start();
      this.#showPosition(); // the slider has its range before it can be used
      this.#play.focus();
    }
  }

  /** Remove the stage and the controls. Nothing of the replay continues. */
  close() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const hadFocus = this.bar.contains(document.activeElement);
    this.stage.remove();
    this.bar.remove();
    setInert(false);
    this.#options.onClose?.();
    if (hadFocus && this.#opener instanceof HTMLElement) this.#opener.focus();
  }

  #listen() {
    this.#exit.ariaLabel = this.#exit.title = "Exit replay";
    this.#exit.append(icon("close"));
    this.#slider.addEventListener("input", () => {
      this.#position = Math.min(this.#slider.valueAsNumber, this.#schedule.seconds);
      paint(this.#slice);
    });
    this.#slider.addEventListener("pointerdown", () => (this.#isHeld = true));
    for (const type of ["pointerup", "pointercancel", "blur"]) {
      this.#slider.addEventListener(type, () => (this.#isHeld = false));
    }
    this.bar.addEventListener("keydown", ({ key }) => {
      if (key === "Escape") this.close();
    });
  }

  /** Show a note, in place of the controls if they cannot be used. @param {string} words */
  #say(words, isReady = false) {
    setText(this.#note, words);
    for (const control of this.#controls) control.hidden = !isReady;
  }

  #start() {
    if (this.#position >= this.#schedule.seconds) this.#position = 0;
    this.#isPlaying = true;
    this.#movedAt = null;
    paint(this.#slice);
  }

  #pause() {
    this.#isPlaying = false;
    paint(this.#slice);
  }

  /** @param {() => boolean} hasTime @returns {boolean} whether there is nothing more to do */
  #slice = (hasTime) => {
    if (this.#isClosed || !this.stage.isConnected) return true;
    this.#move();
    const isDone = this.#catchUp(hasTime);
    const isAtEnd = this.#position >= this.#schedule.seconds;
    if (isDone && isAtEnd && !this.#isHeld) this.#isPlaying = false;
    this.#showPosition();
    return isDone && !this.#isPlaying;
  };

  /** Let time pass, unless frames that are due wait. */
  #move() {
    const now = performance.now();
    const before = this.#movedAt ?? now;
    const isBehind = this.#taken < this.#schedule.countBy(this.#position);
    this.#movedAt = now;
    if (!this.#isPlaying || this.#isHeld || isBehind) return;
    const step = Math.min((now - before) / 1000, LONGEST_STEP) * Number(this.#speed.value);
    this.#position = Math.min(this.#position + step, this.#schedule.seconds);
  }

  /** Apply the frames that are due while there is time, and show them.
   * @param {() => boolean} hasTime
   * @returns {boolean} whether all that is due is shown */
  #catchUp(hasTime) {
    const due = Math.max(1, this.#schedule.countBy(this.#position));
    if (this.#taken > due) {
      this.#run = new Run(this.#options.runId);
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
    if (this.#view === null) return isDone && this.#showNewView(hasTime);
    if (changed.size > 0) this.#options.onChange?.();
    return this.#view.update(this.#run, [...changed], hasTime) && isDone;
  }

  /** Show the run in a new view. What is below it must not jump. @param {() => boolean} hasTime */
  #showNewView(hasTime) {
    const view = (this.#view = this.#options.makeView());
    const isShown = view.update(this.#run, this.#run.blocks, hasTime);
    this.stage.style.setProperty("--height", `${this.stage.offsetHeight}px`);
    this.stage.replaceChildren(view.element);
    this.#options.onChange?.();
    return isShown;
  }

  #showPosition() {
    const { seconds } = this.#schedule;
    const name = this.#isPlaying ? "Pause" : "Play";
    if (this.#play.ariaLabel !== name) this.#play.replaceChildren(icon(name.toLowerCase()));
    this.#play.ariaLabel = name;
    const most = String(Math.max(seconds, 0.001));
    if (this.#slider.max !== most) this.#slider.max = most;
    if (!this.#isHeld) this.#slider.value = String(this.#position);
    const isOver = ENDS.has(this.#frames.at(-1)?.event.type ?? "");
    const [now, all] = [this.#position, seconds].map((time) => clock(Math.floor(time)));
    setText(this.#time, `${now} / ${all}${isOver ? "" : " so far"}`);
    this.#slider.setAttribute("aria-valuetext", `${now} of ${all}`);
  }
}

/** @param {boolean} isInert whether only the replay can be used */
function setInert(isInert) {
  for (const element of document.querySelectorAll(REST)) element.toggleAttribute("inert", isInert);
}

/** When each frame is due, in seconds since the replay began. Long pauses are shortened. */
export class Schedule {
  /** @type {number[]} */ #due = [];
  /** @type {number | null} */ #last = null;

  /** Add the next frame. @param {number} time by any clock, in seconds */
  add(time) {
    const pause = this.#last === null ? 0 : Math.max(0, time - this.#last); // clocks may go back
    this.#last = time;
    this.#due.push(this.seconds + Math.min(pause, LONGEST_PAUSE));
  }

  /** How long the replay takes. */
  get seconds() {
    return this.#due.at(-1) ?? 0;
  }

  /** Return how many frames are due by then. @param {number} seconds */
  countBy(seconds) {
    return firstIndex(this.#due, (due) => due > seconds);
  }
}
