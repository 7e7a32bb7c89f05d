/**
 * The waterfall of a run: a table of when each part of it was visible, with bars on one axis. It
 * reads the log when it is opened, and continues with live frames. Only visible rows exist, and they
 * are drawn in slices, so that a run of thousands of calls stays responsive.
 */

import { make, setText } from "../../tool-call/dom.js";
import { paint } from "../../tool-call/painting.js";
import { visibleLine } from "../../tool-call/visible.js";
import { readLog } from "../log-reading.js";
import { problemWords } from "../wording.js";
import { busy, callName, callsOf, conclusion, pathName } from "./figures.js";
import { WaterfallHead } from "./head.js";
import { Outline, TimedRun, kindOf } from "./outline.js";
import { MoreRow, WaterfallRow } from "./row.js";
import { storyOf } from "./story.js";
import { TimeAxis } from "./time-axis.js";

/** @import { Call, EventFrame, Frame } from "../../argstream.js" */
/** @import { LogClient } from "../log-reading.js" */
/** @import { Timed } from "./outline.js" */

/** A row, and the call that it belongs to if it is an argument.
 * @typedef {{timed: Timed, call: Call | null, depth: number}} TimedItem */
/** @typedef {TimedItem | {above: Timed | null, left: number}} Item */

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
  #run = new TimedRun();
  #outline = new Outline(this.#run);
  #axis = new TimeAxis([]);
  /** @type {Map<Timed, boolean>} */
  #isOpen = new Map();
  /** @type {Map<Timed | null, number>} */
  #shown = new Map();
  /** @type {Map<Timed, WaterfallRow>} */
  #rows = new Map();
  /** @type {Map<Timed | null, MoreRow>} */
  #moreRows = new Map();
  /** What each row that is shown is about. @type {Map<Element, Item>} */
  #items = new Map();
  /** @type {Element | null} the row that the tab key leads to */
  #stop = null;
  /** @type {TimedItem | null} the row whose exact times are shown */
  #about = null;
  /** A visit lasts from opening to closing. @type {object | null} */
  #visit = null;
  /** The seq of the last live frame. */
  #live = Infinity;
  /** Live frames that came while the log was read; null if it is not being read.
   * @type {Frame[] | null} */
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

  /**
   * Show it, and read the log.
   *
   * @param {number} [seq] of the last live frame: the next one continues after it
   * @returns {Promise<void>}
   */
  async open(seq = Infinity) {
    if (this.#visit !== null) return;
    this.element.hidden = false;
    this.#visit = {};
    this.#live = seq;
    this.#run = new TimedRun();
    this.#outline = new Outline(this.#run);
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

  /** Apply a live frame, if it is open. @param {Frame} frame */
  take(frame) {
    if (this.#visit === null) return;
    this.#live = frame.seq;
    if (this.#isStale) return;
    if (this.#early !== null) this.#early.push(frame);
    else if (frame.event) this.#note(frame);
    // A snapshot replaces frames that were not sent. Their times are in the log.
    else if (frame.seq > this.#run.seq) this.#load();
  }

  /** @returns {Promise<void>} */
  async #load() {
    const visit = this.#visit;
    const run = this.#run;
    const isWanted = () => this.#visit === visit && visit !== null;
    const live = this.#live;
    /** @type {EventFrame[]} */
    const rest = [];
    /** @param {EventFrame} frame */
    const take = (frame) => (frame.seq <= live ? run.take(frame) : rest.push(frame));
    this.#early = [];
    this.#isStale = false;
    this.#problem.hidden = true;
    this.element.ariaBusy = "true";
    if (run.seq === 0) this.#head.say("Reading the log…");
    try {
      if (!(await readLog(this.#client, this.#runId, take, isWanted))) return;
      const early = this.#early ?? [];
      this.#early = null;
      // A live frame merges several records, and the log may end among them. Then they are taken
      // from the frame, and not from the log: its text would be added twice.
      const last = rest.at(-1)?.seq ?? 0;
      const until = early.findLast(({ seq }) => seq <= last)?.seq ?? 0;
      for (const frame of rest) if (frame.seq <= until) run.take(frame);
      const fresh = early.filter(({ seq }) => seq > run.seq);
      if (fresh.some(({ snapshot }) => snapshot)) this.#load();
      else fresh.forEach((frame) => this.#note(frame));
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

  /** @param {Frame} frame */
  #note(frame) {
    this.#run.take(frame);
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
    const run = this.#run;
    this.#outline = new Outline(run);
    const axis = (this.#axis = new TimeAxis(busy(run), { isGrowing: run.end === null }));
    this.#head.drawAxis(axis);
    if (run.seq > 0) this.#head.say(conclusion(run) || NOTHING);
    this.#tellExactly();
    yield;
    /** @type {Element | null} */
    let next = this.#body.firstElementChild;
    for (const item of this.#below(null, null, 0)) {
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
    const { timed, call, depth } = item;
    const outline = this.#outline;
    const kind = kindOf(timed);
    const row = getOr(this.#rows, timed, () => new WaterfallRow(kind));
    const isFolding = kind !== "turn" && outline.below(timed).length > 0;
    row.update(storyOf(timed, call, outline), axis, {
      depth,
      isOpen: isFolding ? this.#hasOpen(timed) : null,
      isLost: outline.isLost(call ?? timed),
      longest: this.#run.time,
    });
    return row.element;
  }

  /**
   * The rows that are shown below a row, in order.
   *
   * @param {Timed | null} above null for all
   * @param {Call | null} call that it belongs to, if it is an argument
   * @param {number} depth
   * @returns {Generator<Item, void>}
   */
  *#below(above, call, depth) {
    const all = this.#outline.below(above);
    const most = this.#shown.get(above) ?? FIRST;
    for (const timed of all.slice(0, most)) {
      const kind = kindOf(timed);
      const itsCall = kind === "argument" ? (call ?? /** @type {Call} */ (above)) : null;
      yield { timed, call: itsCall, depth };
      if (!this.#hasOpen(timed)) continue;
      yield* this.#below(timed, itsCall, kind === "turn" ? depth : depth + 1);
    }
    if (all.length > most) yield { above, left: all.length - most };
  }

  /** Whether what is below it is shown. It stays as it was first. @param {Timed} timed */
  #hasOpen(timed) {
    const kind = kindOf(timed);
    if (kind === "turn") return true;
    const isOpen = () => kind === "call" && callsOf(this.#run).length <= DETAILED;
    return getOr(this.#isOpen, timed, isOpen);
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
      const { timed } = item;
      if (kindOf(timed) === "turn" || this.#outline.below(timed).length === 0) return;
      this.#isOpen.set(timed, isOpen ?? !this.#hasOpen(timed));
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
    this.#about = "above" in item ? null : item;
    this.#tellExactly();
  }

  #tellExactly() {
    const words = this.#about === null ? HINT : this.#exactTimes(this.#about);
    setText(this.#exactly, visibleLine(words));
  }

  /** @param {TimedItem} item */
  #exactTimes({ timed, call }) {
    const { label, exactly } = storyOf(timed, call, this.#outline);
    const isArgument = call !== null && "path" in timed;
    const name = isArgument ? `${callName(call)}, ${pathName(timed.path)}` : label;
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
