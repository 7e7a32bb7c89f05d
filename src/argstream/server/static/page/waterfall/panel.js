/**
 * The waterfall of a run: a table of when each thing of it could be seen, with bars on one axis.
 * It reads the log when it is opened and goes on with live frames. Only rows that are shown exist,
 * and they are made and moved in slices, so that a run of thousands of calls stays readable.
 */

import { make, setText } from "../../tool-call/dom.js";
import { paint } from "../../tool-call/painting.js";
import { visibleLine } from "../../tool-call/visible.js";
import { readLog } from "../log-reading.js";
import { problemWords } from "../wording.js";
import { busy, callName, conclusion, pathName } from "./figures.js";
import { WaterfallHead } from "./head.js";
import { MoreRow, WaterfallRow } from "./row.js";
import { storyOf } from "./story.js";
import { TimeAxis } from "./time-axis.js";
import { Timeline } from "./timeline.js";

/** @import { Frame } from "../../argstream.js" */
/** @import { LogClient } from "../log-reading.js" */
/** @import { Times } from "./timeline.js" */

/** @typedef {{times: Times, depth: number} | {above: Times | Timeline, left: number}} Item */

const DETAILED = 12; // so many calls are shown with their arguments; later ones when asked
const FIRST = 100; // so many rows below one are shown at first …
const MORE = 200; // … and so many more when asked
const PAUSE = 200; // milliseconds between two pictures of a run that goes on
const NOTHING = "No call of this run is whole yet.";
const HINT = "Point at a row, or go through the rows with the arrow keys, for exact times.";

/** The panel. */
export class WaterfallPanel {
  #client;
  #runId;
  #head = new WaterfallHead();
  #body = make("tbody", { role: "rowgroup" });
  #exactly = make("p", { class: "waterfall-exactly" });
  #problem = make("p", { class: "waterfall-problem", hidden: true });
  #retry = make("button", { type: "button", class: "small" }, "Try again");
  #timeline = new Timeline();
  #axis = new TimeAxis([]);
  /** @type {Map<Times, boolean>} */
  #isOpen = new Map();
  /** @type {Map<Times | Timeline, number>} */
  #shown = new Map();
  /** @type {Map<Times, WaterfallRow>} */
  #rows = new Map();
  /** @type {Map<Times | Timeline, MoreRow>} */
  #moreRows = new Map();
  /** What each row that is shown is about. @type {Map<Element, Item>} */
  #items = new Map();
  /** @type {Element | null} the row that the tab key leads to */
  #stop = null;
  /** @type {Times | null} what the exact times are of */
  #about = null;
  /** A visit lasts from opening to closing. @type {object | null} */
  #visit = null;
  /** Live frames that came while the log was read; null if nobody reads. @type {Frame[] | null} */
  #early = null;
  #isStale = false;
  /** @type {Iterator<void> | null} */
  #pass = null;
  #isBehind = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer = undefined;
  #watcher = new ResizeObserver(() => this.#head.drawAxis(this.#axis));

  /** @param {{client: LogClient, runId: string}} options */
  constructor({ client, runId }) {
    this.#client = client;
    this.#runId = runId;
    const table = make(
      "table",
      { class: "waterfall-table", role: "table" },
      this.#head.caption,
      this.#head.element,
      this.#body,
    );
    this.element = make(
      "section",
      { class: "waterfall", "aria-label": "Waterfall", hidden: true },
      this.#head.gain,
      this.#problem,
      this.#head.legend,
      table,
      this.#head.leftOut,
      this.#exactly,
    );
    this.#retry.addEventListener("click", () => this.#load());
    this.#body.addEventListener("click", (event) => this.#press(event.target));
    this.#body.addEventListener("keydown", (event) => this.#key(event));
    this.#body.addEventListener("focusin", (event) => this.#point(event.target));
    this.#body.addEventListener("pointerover", (event) => this.#point(event.target));
  }

  /** Show it, and read the log. @returns {Promise<void>} */
  async open() {
    if (this.#visit !== null) return;
    this.element.hidden = false;
    this.#visit = {};
    this.#timeline = new Timeline();
    this.#watcher.observe(this.#head.axis);
    this.#tellExactly();
    await this.#load();
  }

  /** Hide it, and forget everything. */
  close() {
    this.element.hidden = true;
    this.#visit = null;
    this.#pass = null;
    this.#early = null;
    this.#isStale = false;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#watcher.disconnect();
    for (const map of [this.#isOpen, this.#shown, this.#rows, this.#moreRows, this.#items]) {
      map.clear();
    }
    this.#body.replaceChildren();
    this.#stop = this.#about = null;
    this.#head.clear();
  }

  /** Take a live frame, if it is open. @param {Frame} frame */
  take(frame) {
    if (this.#visit === null || this.#isStale) return;
    if (this.#early !== null) this.#early.push(frame);
    else if (frame.event.type !== "run_snapshot") this.#note(frame, false);
    // A snapshot stands for frames that did not come: when what happened is in the log.
    else if (frame.seq > this.#timeline.seq) this.#load();
  }

  /** @returns {Promise<void>} */
  async #load() {
    const visit = this.#visit;
    const timeline = this.#timeline;
    const isWanted = () => this.#visit === visit && visit !== null;
    this.#early = [];
    this.#isStale = false;
    this.#problem.hidden = true;
    this.element.ariaBusy = "true";
    if (timeline.seq === 0) this.#head.say("Reading the log…");
    try {
      if (!(await readLog(this.#client, this.#runId, (frame) => timeline.take(frame), isWanted))) {
        return;
      }
      const early = this.#early ?? [];
      this.#early = null;
      this.#takeEarly(early);
    } catch (error) {
      if (!isWanted()) return;
      this.#early = null;
      this.#isStale = true;
      const words = visibleLine(problemWords(error));
      this.#problem.replaceChildren(`The log could not be read. ${words} `, this.#retry);
      this.#problem.hidden = false;
      this.#head.say("");
    }
    this.element.ariaBusy = null;
    this.#begin();
  }

  /** @param {Frame[]} frames that came live while the log was read */
  #takeEarly(frames) {
    const fresh = frames.filter(({ seq }) => seq > this.#timeline.seq);
    if (fresh.some(({ event }) => event.type === "run_snapshot")) {
      this.#load();
      return;
    }
    fresh.forEach((frame, index) => this.#note(frame, index === 0));
  }

  /** @param {Frame} frame @param {boolean} overlaps */
  #note(frame, overlaps) {
    this.#timeline.take(frame, { overlaps });
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      if (this.#pass === null) this.#begin();
      else this.#isBehind = true; // or a long picture would never be finished
    }, PAUSE);
  }

  // Drawing

  #begin() {
    const pass = (this.#pass = this.#draw());
    this.#isBehind = false;
    paint((hasTime) => {
      while (this.#pass === pass) {
        if (!hasTime()) return false;
        if (!pass.next().done) continue;
        this.#pass = null;
        if (this.#isBehind) this.#begin();
      }
      return true;
    });
  }

  /** @returns {Generator<void, void>} */
  *#draw() {
    const timeline = this.#timeline;
    const isGrowing = timeline.end === null;
    const axis = (this.#axis = new TimeAxis(busy(timeline), { isGrowing }));
    this.#head.drawAxis(axis);
    if (timeline.seq > 0) this.#head.say(conclusion(timeline) || NOTHING);
    this.#tellExactly();
    yield;
    /** @type {Element | null} */
    let next = this.#body.firstElementChild;
    for (const item of this.#below(this.#timeline, 0)) {
      const row = this.#rowOf(item, axis);
      this.#items.set(row, item);
      if (row === next) next = row.nextElementSibling;
      else this.#body.insertBefore(row, next);
      yield;
    }
    while (next !== null) {
      const row = next;
      next = row.nextElementSibling;
      this.#items.delete(row);
      row.remove();
      yield;
    }
    if (this.#stop === null || !this.#stop.isConnected) {
      this.#stopAt(this.#body.firstElementChild);
    }
  }

  /** @param {Item} item @param {TimeAxis} axis @returns {HTMLElement} */
  #rowOf(item, axis) {
    if ("above" in item) {
      const more = getOr(this.#moreRows, item.above, () => new MoreRow());
      more.update(Math.min(MORE, item.left), item.left);
      return more.element;
    }
    const { times, depth } = item;
    const row = getOr(this.#rows, times, () => new WaterfallRow(times.kind));
    row.update(storyOf(times, this.#timeline), axis, {
      depth,
      isOpen: times.kind !== "turn" && countBelow(times) > 0 ? this.#hasOpen(times) : null,
      isLost: times.kind === "argument" ? times.call.isLost : times.isLost,
      longest: this.#timeline.now,
    });
    return row.element;
  }

  /**
   * What is shown below something, in its order.
   *
   * @param {Times | Timeline} above
   * @param {number} depth
   * @returns {Generator<Item, void>}
   */
  *#below(above, depth) {
    const count = countBelow(above);
    const most = this.#shown.get(above) ?? FIRST;
    let index = 0;
    for (const times of childrenOf(above)) {
      if (index === most) break;
      index += 1;
      yield { times, depth };
      if (!this.#hasOpen(times)) continue;
      yield* this.#below(times, times.kind === "turn" ? depth : depth + 1);
    }
    if (count > most) yield { above, left: count - most };
  }

  /** Whether what is below it is shown. It stays as it was first. @param {Times} times */
  #hasOpen(times) {
    if (times.kind === "turn") return true;
    const { calls } = this.#timeline;
    return getOr(this.#isOpen, times, () => times.kind === "call" && calls.length <= DETAILED);
  }

  // What people do

  /** @param {EventTarget | null} target */
  #press(target) {
    const row = rowAround(target);
    if (row === null) return;
    this.#stopAt(row);
    const isButton = target instanceof Element && target.closest("button") !== null;
    if (isButton) this.#unfold(row, null);
  }

  /** @param {Element} row @param {boolean | null} isOpen null to change it */
  #unfold(row, isOpen) {
    const item = this.#items.get(row);
    if (item === undefined) return;
    if ("above" in item) {
      if (isOpen === false) return;
      this.#shown.set(item.above, (this.#shown.get(item.above) ?? FIRST) + MORE);
      const before = row.previousElementSibling;
      if (before instanceof HTMLElement && row.contains(document.activeElement)) before.focus();
    } else {
      if (item.times.kind === "turn" || countBelow(item.times) === 0) return;
      this.#isOpen.set(item.times, isOpen ?? !this.#hasOpen(item.times));
    }
    this.#begin();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const row = rowAround(event.target);
    if (row === null || event.altKey || event.ctrlKey || event.metaKey) return;
    const isOnRow = event.target === row;
    if (event.key === "ArrowDown") focus(row.nextElementSibling);
    else if (event.key === "ArrowUp") focus(row.previousElementSibling);
    else if (event.key === "Home") focus(this.#body.firstElementChild);
    else if (event.key === "End") focus(this.#body.lastElementChild);
    else if (event.key === "ArrowRight") this.#unfold(row, true);
    else if (event.key === "ArrowLeft") this.#unfold(row, false);
    else if (isOnRow && (event.key === "Enter" || event.key === " ")) this.#unfold(row, null);
    else return;
    event.preventDefault();
  }

  /** @param {EventTarget | null} target */
  #point(target) {
    const row = rowAround(target);
    const item = row === null ? undefined : this.#items.get(row);
    if (row === null || item === undefined) return;
    if (row.contains(document.activeElement)) this.#stopAt(row);
    this.#about = "above" in item ? null : item.times;
    this.#tellExactly();
  }

  #tellExactly() {
    const words = this.#about === null ? HINT : this.#exactTimes(this.#about);
    setText(this.#exactly, visibleLine(words));
  }

  /** @param {Times} times */
  #exactTimes(times) {
    const { label, exactly } = storyOf(times, this.#timeline);
    const isArgument = times.kind === "argument";
    const name = isArgument ? `${callName(times.call)}, ${pathName(times.path)}` : label;
    return `${name}: ${exactly.join(", ")}.`;
  }

  /** @param {Element | null} row */
  #stopAt(row) {
    if (row === this.#stop) return;
    this.#stop?.setAttribute("tabindex", "-1");
    row?.setAttribute("tabindex", "0");
    this.#stop = row;
  }
}

/** @param {Times | Timeline} times */
function countBelow(times) {
  if (times instanceof Timeline) return times.turns.length;
  if (times.kind === "turn") return times.blocks.length;
  if (times.kind === "call") {
    return (times.text === null ? times.inside.size : 1) + times.blocks.length;
  }
  return times.kind === "argument" ? (times.inside?.size ?? 0) : 0;
}

/** @param {Times | Timeline} times @returns {Generator<Times, void>} */
function* childrenOf(times) {
  if (times instanceof Timeline) return yield* times.turns;
  if (times.kind === "call") yield* times.arguments;
  if (times.kind === "argument") yield* times.inside?.values() ?? [];
  if (times.kind === "turn" || times.kind === "call") yield* times.blocks;
}

/** @param {EventTarget | null} target @returns {Element | null} */
function rowAround(target) {
  return target instanceof Element ? target.closest(".waterfall-row") : null;
}

/** @param {Element | null} row */
function focus(row) {
  if (row instanceof HTMLElement) row.focus();
}

/**
 * @template Name, Value
 * @param {Map<Name, Value>} map
 * @param {Name} name
 * @param {() => Value} makeValue
 * @returns {Value}
 */
function getOr(map, name, makeValue) {
  const known = map.get(name);
  if (known !== undefined) return known;
  const value = makeValue();
  map.set(name, value);
  return value;
}
