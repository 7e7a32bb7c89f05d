/**
 * The controls of a replay: native ones, so that keyboards and screen readers know them. They show
 * what they are told, and tell what people want.
 */

import { make } from "../../tool-call/dom.js";
import { visibleLine } from "../../tool-call/visible.js";
import { clock, duration } from "../times.js";
import { LONGEST_PAUSE } from "./schedule.js";

const SPEEDS = [0.5, 1, 2, 5, 20];

/**
 * @typedef {object} Wishes
 * @property {() => void} onPlay play, or pause
 * @property {(seconds: number) => void} onSeek
 * @property {(isHeld: boolean) => void} onHold somebody has the slider in his hand
 * @property {(speed: number) => void} onSpeed
 * @property {(isShortened: boolean) => void} onPauses
 * @property {() => void} onRetry
 * @property {() => void} onLeave
 */

/** The controls. */
export class ReplayControls {
  #glyph = make("span", { class: "replay-glyph", "aria-hidden": "true" });
  #word = make("span", { text: "Play" });
  #play = make("button", { type: "button", class: "replay-play" }, this.#glyph, this.#word);
  #slider = make("input", { type: "range", min: 0, max: 1, step: "any", "aria-label": "Position" });
  #position = make("output", { class: "replay-position", "aria-hidden": "true" });
  #speed = make(
    "select",
    { "aria-label": "Speed" },
    ...SPEEDS.map((speed) => make("option", { value: speed, text: `${speed}×` })),
  );
  #asTheyWere = make("input", { type: "checkbox" });
  #saved = make("span");
  #pauses = make(
    "p",
    { class: "replay-pauses", hidden: true },
    make("label", {}, this.#asTheyWere, "Play pauses as they were"),
    this.#saved,
  );
  #note = make("p", { class: "replay-note", hidden: true });
  #progress = make("progress", { class: "replay-progress", "aria-label": "Reading the log" });
  #retry = make("button", { type: "button", class: "replay-button" }, "Try again");
  #problem = make("p", { class: "replay-problem", hidden: true });
  #playing = make(
    "div",
    { class: "replay-bar", hidden: true },
    this.#play,
    this.#slider,
    this.#position,
    this.#speed,
  );
  #shown = "";

  /** @param {Wishes} wishes */
  constructor({ onPlay, onSeek, onHold, onSpeed, onPauses, onRetry, onLeave }) {
    const leave = make(
      "button",
      { type: "button", class: "replay-button replay-leave" },
      "Leave replay",
    );
    this.element = make(
      "div",
      { class: "replay-controls" },
      make("strong", { text: "Replay" }),
      this.#progress,
      this.#playing,
      leave,
    );
    /** What need not stay in sight. */
    this.notes = make(
      "div",
      { class: "replay-notes" },
      this.#problem,
      this.#pauses,
      this.#note,
    );
    this.#speed.value = "1";
    this.#play.addEventListener("click", onPlay);
    this.#slider.addEventListener("input", () => onSeek(this.#slider.valueAsNumber));
    this.#slider.addEventListener("pointerdown", () => onHold(true));
    for (const type of ["pointerup", "pointercancel", "blur"]) {
      this.#slider.addEventListener(type, () => onHold(false));
    }
    this.#speed.addEventListener("change", () => onSpeed(Number(this.#speed.value)));
    this.#asTheyWere.addEventListener("change", () => {
      this.#saved.hidden = this.#asTheyWere.checked;
      onPauses(!this.#asTheyWere.checked);
    });
    this.#retry.addEventListener("click", onRetry);
    leave.addEventListener("click", onLeave);
  }

  /** Say how far the log has been read. @param {number} count @param {number} total */
  showProgress(count, total) {
    this.#problem.hidden = true;
    this.#progress.hidden = false;
    this.#progress.max = Math.max(1, total);
    this.#progress.value = Math.min(count, total);
  }

  /** @param {string} words why the log cannot be read */
  showProblem(words) {
    this.#progress.hidden = true;
    this.#problem.hidden = false;
    this.#problem.replaceChildren(`The log could not be read. ${visibleLine(words)} `, this.#retry);
  }

  /**
   * The log is read: show what plays it.
   *
   * @param {{saved: number, isOver: boolean, isEmpty: boolean}} run saved: seconds that are saved
   *   by shortening its pauses
   */
  showReady({ saved, isOver, isEmpty }) {
    this.#progress.hidden = true;
    this.#playing.hidden = isEmpty;
    this.#pauses.hidden = saved <= 0;
    this.#saved.textContent = `Pauses shortened to ${LONGEST_PAUSE} s (${duration(saved)} less).`;
    this.#note.hidden = isOver;
    if (isEmpty) this.#note.textContent = "There is nothing to replay yet.";
    else if (!isOver) this.#note.textContent = "The run goes on: this is what happened until now.";
  }

  /**
   * Show where the replay is.
   *
   * @param {{position: number, seconds: number, isPlaying: boolean, isHeld: boolean}} state
   */
  update({ position, seconds, isPlaying, isHeld }) {
    this.#word.textContent = isPlaying ? "Pause" : "Play";
    this.#glyph.textContent = isPlaying ? "❚❚" : "▶";
    const most = String(Math.max(seconds, 0.001));
    if (this.#slider.max !== most) this.#slider.max = most;
    if (!isHeld) this.#slider.value = String(position);
    const shown = `${minutes(position)} of ${minutes(seconds)}`;
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.#position.textContent = shown;
    this.#slider.setAttribute("aria-valuetext", shown);
  }
}

/** @param {number} seconds */
function minutes(seconds) {
  return clock(Math.floor(seconds)).padStart(5, "0");
}
