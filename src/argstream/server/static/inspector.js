// The inspector of a run: a side panel with the tabs Timeline, Call and Events. The page loads this
// module when the panel is first opened. There is one panel; opening it again replaces it.
//
// A snapshot has few times, so the panel reads the log and applies it to a `Run` of its own. In this
// order: the panel, its tabs, the list of rows, the time axis, the rows of the timeline, texts.

import { Argument, Call, Run, toJson } from "./argstream.js";
import {
  button, copyText, countOf, duration, firstIndex, icon, keep, kept, make, moment, oneLine, paint,
  pathWords, problemWords, readLog, setChildren, setText, visible, visibleLine,
} from "./dom.js";
import { primaryArgument, stateLabel } from "./tool-call.js";
/** @import { Block, Text, Thinking, TurnTimes } from "./argstream.js" */
/** @import { LogClient } from "./dom.js" */
/** @import { EventFrame, Frame, JsonValue, RunEvent } from "./types.js" */

/**
 * @typedef {object} InspectorOptions
 * @property {LogClient} client
 * @property {string} runId
 * @property {{ readonly seq: number } | null} [run] as the page follows it
 * @property {(call: Call) => void} [onGoTo] scrolls to the card of a call
 * @property {() => void} [onClose] called once, also when another run takes the panel
 */

const REDRAW = 200; // milliseconds between two updates of a running run
const [NARROWEST, WIDEST, WIDTH] = [440, 640, 480]; // pixels
const WIDTH_KEY = "argstream.inspector";

/** @type {Inspector | null} */
let opened = null;

export class Inspector {
  #options;
  #run = new TimedRun();
  /** The seq of the last live frame. */
  #live;
  /** Live frames to apply once the log is read; null if they can be applied at once.
   * @type {Frame[] | null} */
  #early = null;
  /** Whether the log was read once. Nothing is drawn before: what is expanded depends on all calls.
   */
  #isRead = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #timer;
  #isNarrow = matchMedia("(width < 1024px)");
  #width = Number(kept("localStorage", WIDTH_KEY)) || WIDTH;

  #timeline = new Timeline((call) => {
    this.#call.call = call;
    this.#showTab(1);
    this.#options.onGoTo?.(call);
  });
  #call = new CallView((call) => {
    if (this.#isNarrow.matches) this.close();
    this.#options.onGoTo?.(call);
  });
  #tabs = [
    tabOf("timeline", "Timeline", this.#timeline),
    tabOf("call", "Call", this.#call),
    tabOf("events", "Events", new EventList(() => this.#call.call)),
  ];
  /** The index of the selected tab. */
  #at = 0;
  #separator = make("div", {
    class: "inspector-separator", role: "separator", tabindex: 0, "aria-orientation": "vertical",
    "aria-label": "Width of the inspector", "aria-valuemin": NARROWEST, "aria-valuemax": WIDEST,
  });
  #tablist = make(
    "div", { class: "inspector-tabs", role: "tablist", "aria-label": "Inspector" },
    ...this.#tabs.map(({ tab }) => tab),
  );
  #close = button("", "icon-button", () => this.close());
  #status = make("p", { class: "inspector-status", role: "status" });
  #retry = button("Retry", "small", () => this.#load());
  #dialog = make(
    "dialog", { class: "inspector", "aria-label": "Inspector" },
    this.#separator,
    make("div", { class: "inspector-head" }, this.#tablist, this.#close),
    this.#status,
    ...this.#tabs.map(({ view }) => view.element),
  );

  /** @param {InspectorOptions} options */
  constructor(options) {
    opened?.close();
    opened = this;
    this.#options = options;
    this.#live = options.run?.seq ?? Infinity;
    this.#close.ariaLabel = "Close";
    this.#close.append(icon("close"));
    this.#listen();
    this.#resize(this.#width);
    document.body.append(this.#dialog);
    this.#showTab(0);
    this.#open();
    this.#load();
  }

  /** Apply a live frame. @param {Frame} frame */
  take(frame) {
    if (!this.#dialog.isConnected) return;
    this.#live = frame.seq;
    if (this.#early !== null) this.#early.push(frame);
    else if (frame.event) this.#apply(frame);
    // A snapshot replaces frames that were not sent. Their times are in the log.
    else if (frame.seq > this.#run.seq) this.#load();
  }

  /** Close the panel. The focus returns to where it was. */
  close() {
    if (!this.#dialog.isConnected) return;
    opened = null;
    clearTimeout(this.#timer);
    this.#isNarrow.removeEventListener("change", this.#open);
    this.#dialog.close();
    this.#dialog.remove();
    this.#options.onClose?.();
  }

  #listen() {
    this.#isNarrow.addEventListener("change", this.#open);
    for (const [index, { tab }] of this.#tabs.entries()) {
      tab.addEventListener("click", () => this.#showTab(index));
    }
    this.#tablist.addEventListener("keydown", (event) => {
      const at = this.#at;
      const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: -1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      this.#showTab((next + this.#tabs.length) % this.#tabs.length);
      this.#tabs[this.#at]?.tab.focus();
    });
    this.#dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      this.close();
    });
    this.#dialog.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      if (this.#at !== 0 || !this.#timeline.resetZoom()) this.close();
    });
    this.#separator.addEventListener("keydown", ({ key }) => {
      const step = { ArrowLeft: 16, ArrowRight: -16 }[key];
      if (step !== undefined) this.#resize(this.#width + step);
    });
    this.#separator.addEventListener("pointerdown", ({ pointerId }) => {
      this.#separator.setPointerCapture(pointerId);
    });
    this.#separator.addEventListener("pointermove", ({ pointerId, clientX }) => {
      if (this.#separator.hasPointerCapture(pointerId)) this.#resize(innerWidth - clientX);
    });
  }

  /** Show the dialog: over everything in a narrow window, otherwise at the side. */
  #open = () => {
    this.#dialog.close();
    if (this.#isNarrow.matches) this.#dialog.showModal();
    else this.#dialog.show();
    this.#tabs[this.#at]?.tab.focus();
  };

  /** @param {number} at */
  #showTab(at) {
    this.#at = at;
    for (const [index, { tab, view }] of this.#tabs.entries()) {
      tab.ariaSelected = String(index === at);
      tab.tabIndex = index === at ? 0 : -1;
      view.element.hidden = index !== at;
    }
    this.#draw();
  }

  /** @param {number} width */
  #resize(width) {
    this.#width = Math.round(Math.min(WIDEST, Math.max(NARROWEST, width)));
    this.#separator.ariaValueNow = String(this.#width);
    document.body.style.setProperty("--inspector-width", `${this.#width}px`);
    keep("localStorage", WIDTH_KEY, String(this.#width));
  }

  async #load() {
    const run = this.#run;
    const live = this.#live;
    const { client, runId } = this.#options;
    /** @type {EventFrame[]} */
    const rest = [];
    /** @param {EventFrame} frame */
    const take = (frame) => (frame.seq <= live ? run.take(frame) : rest.push(frame));
    this.#early = [];
    this.#dialog.ariaBusy = "true";
    setText(this.#status, run.seq === 0 ? "Loading…" : "");
    try {
      if (!(await readLog(client, runId, take, () => this.#dialog.isConnected))) return;
      const early = this.#early;
      this.#early = null;
      // A live frame merges several records, and the log may end among them. Then they are taken
      // from the frame, and not from the log: its text would be added twice.
      const last = rest.at(-1)?.seq ?? 0;
      const until = early.findLast(({ seq }) => seq <= last)?.seq ?? 0;
      for (const frame of rest) if (frame.seq <= until) run.take(frame);
      const fresh = early.filter(({ seq }) => seq > run.seq);
      if (fresh.some(({ snapshot }) => snapshot)) this.#load();
      else fresh.forEach((frame) => this.#apply(frame));
      setText(this.#status, "");
    } catch (error) {
      if (!this.#dialog.isConnected) return;
      const words = visibleLine(problemWords(error));
      this.#status.replaceChildren(`Couldn't load the timeline: ${words} `, this.#retry);
    }
    this.#dialog.ariaBusy = null;
    this.#isRead = run.seq > 0;
    this.#draw();
  }

  /** @param {Frame} frame */
  #apply(frame) {
    this.#run.take(frame);
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#draw();
    }, REDRAW);
  }

  #draw() {
    if (!this.#dialog.isConnected || !this.#isRead) return;
    this.#tabs[this.#at]?.view.draw(this.#run);
  }
}

/** @param {string} name @param {string} text
 * @param {{ element: HTMLElement, draw: (run: TimedRun) => void }} view */
function tabOf(name, text, view) {
  const [id, controls] = [`inspector-tab-${name}`, `inspector-${name}`];
  view.element.id = controls;
  view.element.role = "tabpanel";
  view.element.setAttribute("aria-labelledby", id);
  const about = { role: "tab", id, "aria-controls": controls };
  return { view, tab: make("button", { type: "button", ...about, text }) };
}

/** The run of the log. Its times are seconds since its first frame, rounded to microseconds. It
 * also knows which blocks belong together. */
export class TimedRun extends Run {
  /** The frames, with such times. @type {EventFrame[]} */
  frames = [];
  /** The blocks of a turn, or of the sub-agent of a call. @type {Map<Timed, Block[]>} */
  #inside = new Map();
  /** A turn in progress without `TurnStarted`, which some agents do not report.
   * @type {TurnTimes | null} */
  #unreported = null;
  /** @type {number | null} */ #origin = null;

  /** @override @param {Frame} frame */
  take(frame) {
    this.#origin ??= frame.time;
    const timed = { ...frame, time: Math.round((frame.time - this.#origin) * 1e6) / 1e6 };
    if (timed.event && timed.seq > this.seq) this.frames.push(timed);
    const count = this.blocks.length;
    const before = this.#lastTurn;
    const changed = super.take(timed);
    if (this.#unreported !== null && this.#lastTurn !== before) {
      this.#inside.set(/** @type {TurnTimes} */ (this.#lastTurn), this.#blocksIn(this.#unreported));
      this.#unreported = null;
    }
    for (const block of this.blocks.slice(count)) {
      const parent = block.parentId === null ? undefined : this.calls.get(block.parentId);
      this.#blocksIn(parent ?? this.#turnOf(block)).push(block);
    }
    return changed;
  }

  /** Return what is below a row of the timeline; all turns for null. @param {Timed | null} timed
   * @returns {Timed[]} */
  below(timed) {
    if (timed === null) {
      const turns = this.turnTimes.filter(({ parentId }) => parentId === null);
      return this.#unreported === null ? turns : [...turns, this.#unreported];
    }
    if (timed instanceof Argument) return timed.children;
    const blocks = this.#inside.get(timed) ?? [];
    return timed instanceof Call ? [...argumentsOf(timed), ...blocks] : blocks;
  }

  get #lastTurn() {
    return this.turnTimes.findLast(({ parentId }) => parentId === null);
  }

  /** @param {Call | TurnTimes} timed */
  #blocksIn(timed) {
    const blocks = this.#inside.get(timed) ?? [];
    this.#inside.set(timed, blocks);
    return blocks;
  }

  /** Return the turn of a new block. @param {Block} block */
  #turnOf(block) {
    const last = this.#unreported ?? this.#lastTurn;
    if (last !== undefined && (block.turn !== 0 || last.endedAt === null)) return last;
    const [turn, startedAt] = [this.below(null).length + 1, last?.endedAt ?? 0];
    const times = { turn, attempt: 1, parentId: null, startedAt, endedAt: null, end: null };
    return (this.#unreported = times);
  }
}

// The tab Timeline

/** A row, with the call that it belongs to if it is an argument.
 * @typedef {{ timed: Timed, call: Call | null, depth: number }} TimelineItem */

const DETAILED = 12; // up to so many calls are expanded at first
const DRAGGED = 5; // pixels from which a press is a drag
const SHORTEST_ZOOM = 0.001; // seconds
const SHORTEST_SHOWN = 0.05; // seconds
const TICK_WIDTH = 56; // pixels from one tick to the next, at least
const CHARACTER = 7; // pixels
const LABEL =
  "Timeline of this run, in seconds from its start. " +
  "Lead time: how long before the call was complete.";
const LEGEND = {
  thinking: "Thinking", text: "Text", call: "Call (writing)", written: "Argument",
  readable: "Readable early", waiting: "Waiting for approval", running: "Tool running",
};

class Timeline {
  #onCall;
  #run = new TimedRun();
  #axis = new TimeAxis([]);
  /** The time that is zoomed to. @type {Stretch | null} */
  #zoom = null;
  /** @type {Map<Timed, boolean>} */ #isOpen = new Map();
  #hasFewCalls = true;
  /** Where a drag began, in percent of the axis. @type {number | null} */
  #dragFrom = null;
  #wasDragged = false;

  #chips = make("ul", { class: "inspector-chips", "aria-label": "Summary" });
  #selection = make("span");
  #ticks = make("div", { class: "timeline-axis", "aria-hidden": "true" });
  #reset = button("Reset zoom", "small", () => this.resetZoom());
  #idle = make("p", { hidden: true });
  #tooltip = make("div", { class: "timeline-tooltip", "aria-hidden": "true", hidden: true });
  #list = new RowList({
    label: LABEL,
    keyOf: (/** @type {TimelineItem} */ { timed }) => timed,
    drawRow: (row, item) => this.#drawRow(row, item),
    onUnfold: (item, isOpen) => this.#unfold(item, isOpen),
    onPress: (item, event) => this.#press(item, event),
    onPoint: (item, row) => this.#point(item, row),
    onResize: () => this.#drawAxis(),
  });
  element = make(
    "section", { class: "timeline" },
    this.#chips,
    make("div", { class: "timeline-chart" }, this.#ticks, this.#list.element),
    make(
      "div", { class: "timeline-foot" },
      make("p", {}, "Hover or use ↑ ↓ for exact times"), this.#reset, this.#idle,
      make("details", {}, make("summary", { text: "Legend" }), legend()),
    ),
    this.#tooltip,
  );

  /** @param {(call: Call) => void} onCall a call was clicked */
  constructor(onCall) {
    this.#onCall = onCall;
    this.#reset.hidden = true;
    const { rows } = this.#list;
    rows.addEventListener("pointerdown", (event) => this.#startDrag(event));
    rows.addEventListener("pointermove", (event) => this.#drag(event));
    rows.addEventListener("pointerup", (event) => this.#endDrag(event));
    rows.addEventListener("pointercancel", (event) => this.#endDrag(event));
  }

  /** @param {TimedRun} run */
  draw(run) {
    this.#run = run;
    this.#hasFewCalls = callsOf(run).length <= DETAILED;
    this.#chips.replaceChildren(...chipsOf(run).map((text) => make("li", { text })));
    this.#drawRows();
  }

  /** @returns {boolean} whether it was zoomed */
  resetZoom() {
    if (this.#zoom === null) return false;
    if (document.activeElement === this.#reset) this.#list.focus();
    this.#zoomTo(null);
    return true;
  }

  #drawRows() {
    this.#axis = new TimeAxis(busy(this.#run), this.#zoom);
    this.#list.show([...this.#below(null, null, 0)]);
    this.#drawAxis();
  }

  /** @param {HTMLElement} row @param {TimelineItem} item */
  #drawRow(row, item) {
    const { timed, call, depth } = item;
    const [axis, run] = [this.#axis, this.#run];
    const story = storyOf(timed, call, run);
    const owner = call ?? timed;
    row.className = `timeline-row timeline-row-${kindOf(timed)}`;
    const isLost = "isLost" in owner ? owner.isLost : story.isBad; // a bad turn is a lost one
    row.classList.toggle("timeline-lost", isLost);
    row.ariaLevel = String(depth + 1);
    row.ariaExpanded = this.#isFolding(item) ? String(this.#hasOpen(timed)) : null;
    row.style.setProperty("--depth", String(Math.min(depth, 6)));
    const shown = story.bars.filter(({ begin, end }) => end >= axis.begin && begin <= axis.end);
    const bars = shown.map(({ look, begin, end, isOpen }) => {
      const name = `timeline-bar timeline-${look}${isOpen ? " timeline-growing" : ""}`;
      return placed(name, axis.of(begin), axis.of(end) - axis.of(begin));
    });
    const own = story.bars.filter(({ look }) => look !== "readable");
    const seconds = Math.max(...own.map(({ end }) => end)) - story.firstSeen;
    const took = seconds < SHORTEST_SHOWN ? "" : duration(seconds);
    const last = shown.toSorted((one, other) => one.end - other.end).at(-1);
    if (last !== undefined) {
      // A bar may be wider than its time, see page.css.
      const [begin, end] = [axis.of(last.begin), axis.of(last.end)];
      const label = placed("timeline-seconds", begin, end - begin, took);
      if (story.isBad) label.prepend(icon("failed"));
      label.classList.toggle("timeline-bad", story.isBad);
      bars.push(label);
    }
    const times = timesOf(story).map(([term, text]) => `${term} ${text}`);
    row.replaceChildren(
      make(
        "div", { class: "timeline-what", role: "rowheader" },
        make("span", { class: "timeline-fold", "aria-hidden": "true" }),
        makeLine("span", "timeline-label", story.label), " ",
        makeLine("span", "timeline-target", story.target),
      ),
      make(
        "div", { class: "timeline-when", role: "gridcell" },
        make("div", { class: "timeline-track", "aria-hidden": "true" }, ...bars),
        makeLine("span", "unseen", [...times, story.note].join(", ")),
      ),
    );
  }

  #drawAxis() {
    const { offsetWidth, clientWidth } = this.#list.element;
    this.#ticks.style.setProperty("--scrollbar", `${offsetWidth - clientWidth}px`);
    const width = this.#ticks.clientWidth;
    const { gaps } = this.#axis;
    let free = 0;
    const ticks = this.#axis.ticks(Math.max(2, Math.floor(width / TICK_WIDTH)));
    const fitting = ticks.filter(({ place, label }) => {
      const end = place + (((label.length + 1) * CHARACTER) / width) * 100;
      const isCovered = gaps.some((gap) => place < gap.end && end > gap.begin);
      if (place < free || isCovered) return false;
      free = end;
      return true;
    });
    this.#ticks.replaceChildren(
      ...fitting.map(({ place, label }) => placed("timeline-tick", place, 0, label)),
      ...gaps.map(({ begin, end }) => placed("timeline-gap", (begin + end) / 2, 0, "‖")),
    );
    const hidden = gaps.reduce((sum, { seconds }) => sum + seconds, 0);
    this.#idle.hidden = gaps.length === 0;
    setText(this.#idle, `‖ ${duration(hidden)} idle time hidden`);
  }

  /** The rows below a row that are shown, in order.
   * @param {Timed | null} above null for all
   * @param {Call | null} call that `above` is an argument of
   * @param {number} depth @returns {Generator<TimelineItem, void>} */
  *#below(above, call, depth) {
    for (const timed of this.#run.below(above)) {
      const owner = timed instanceof Argument ? (call ?? /** @type {Call} */ (above)) : null;
      yield { timed, call: owner, depth };
      if (this.#hasOpen(timed)) yield* this.#below(timed, owner, depth + 1);
    }
  }

  /** @param {Timed} timed */
  #hasOpen(timed) {
    const known = this.#isOpen.get(timed);
    if (known !== undefined) return known;
    const kind = kindOf(timed);
    const isOpen = kind === "turn" || (kind === "call" && this.#hasFewCalls);
    this.#isOpen.set(timed, isOpen); // so that it does not close when more calls start
    return isOpen;
  }

  // Input

  /** The target of the event is a row: what is in it may be replaced while it is pressed.
   * @param {TimelineItem} item @param {MouseEvent | null} event */
  #press(item, event) {
    if (this.#wasDragged && event !== null) return;
    const row = event?.target instanceof Element ? event.target : null;
    const fold = row?.querySelector(".timeline-fold")?.getBoundingClientRect().right ?? 0;
    const isFold = event !== null && event.clientX <= fold && this.#isFolding(item);
    const call = item.call ?? item.timed;
    if (call instanceof Call && !isFold) this.#onCall(call);
    else this.#unfold(item, null);
  }

  /** @param {TimelineItem} item */
  #isFolding({ timed }) {
    return this.#run.below(timed).length > 0;
  }

  /** @param {TimelineItem} item @param {boolean | null} isOpen */
  #unfold(item, isOpen) {
    if (!this.#isFolding(item)) return;
    this.#isOpen.set(item.timed, isOpen ?? !this.#hasOpen(item.timed));
    this.#drawRows();
  }

  /** Show the tooltip of a row. @param {TimelineItem | null} item @param {Element | null} row */
  #point(item, row) {
    this.#tooltip.hidden = item === null || this.#wasDragged;
    if (item === null || row === null) return;
    const story = storyOf(item.timed, item.call, this.#run);
    this.#tooltip.replaceChildren(
      makeLine("strong", "", `${story.label} ${story.target}`),
      make("dl", {}, ...makeTerms(timesOf(story))),
      makeLine("span", "", story.note),
    );
    const { top, bottom } = row.getBoundingClientRect();
    const area = this.element.getBoundingClientRect();
    const height = this.#tooltip.offsetHeight;
    const below = bottom - area.top + 4;
    const above = top - area.top - height - 4;
    const place = below + height <= area.height ? below : above;
    this.#tooltip.style.setProperty("top", `${place}px`);
  }

  /** @param {PointerEvent} event */
  #placeOf({ clientX }) {
    const { left, width } = this.#ticks.getBoundingClientRect();
    return Math.min(100, Math.max(0, ((clientX - left) / width) * 100));
  }

  /** @param {PointerEvent} event */
  #startDrag(event) {
    const { button, pointerType, clientX } = event;
    const isBar = clientX >= this.#ticks.getBoundingClientRect().left;
    this.#wasDragged = false;
    if (isBar && button === 0 && pointerType !== "touch") this.#dragFrom = this.#placeOf(event);
  }

  /** @param {PointerEvent} event */
  #drag(event) {
    if (this.#dragFrom === null) return;
    const place = this.#placeOf(event);
    const size = Math.abs(place - this.#dragFrom);
    if (!this.#wasDragged && (size / 100) * this.#ticks.clientWidth < DRAGGED) return;
    this.#wasDragged = true;
    this.#tooltip.hidden = true;
    this.#list.rows.setPointerCapture(event.pointerId);
    this.#selection.remove();
    this.#selection = placed("timeline-selection", Math.min(place, this.#dragFrom), size);
    this.#ticks.append(this.#selection);
  }

  /** @param {PointerEvent} event */
  #endDrag(event) {
    const from = this.#dragFrom;
    this.#dragFrom = null;
    this.#selection.remove();
    if (from === null || !this.#wasDragged || event.type === "pointercancel") return;
    const [one, other] = [this.#axis.timeAt(from), this.#axis.timeAt(this.#placeOf(event))];
    this.#zoomTo({ begin: Math.min(one, other), end: Math.max(one, other) });
  }

  /** @param {Stretch | null} stretch */
  #zoomTo(stretch) {
    if (stretch !== null && stretch.end - stretch.begin < SHORTEST_ZOOM) return;
    this.#zoom = stretch;
    this.#reset.hidden = stretch === null;
    this.#drawRows();
  }
}

/** Make an element at a place of the axis, both in percent.
 * @param {string} name a class
 * @param {number} begin @param {number} size @param {string} [text] */
function placed(name, begin, size = 0, text = "") {
  const element = make("span", { class: name, text });
  element.style.setProperty("--begin", `${begin.toFixed(3)}%`);
  element.style.setProperty("--size", `${size.toFixed(3)}%`);
  return element;
}

function legend() {
  const entries = Object.entries(LEGEND).map(([look, words]) =>
    make("li", {}, make("span", { class: `timeline-swatch timeline-${look}` }), words),
  );
  return make("ul", {}, ...entries);
}

/** @param {Run} run @returns {string[]} */
function chipsOf(run) {
  const calls = callsOf(run);
  const { input_tokens: read, output_tokens: written } = run.usage;
  const chips = [duration(run.time), countOf(calls.length, "call")];
  if (read !== null || written !== null) chips.push(`${read ?? "–"}/${written ?? "–"} tokens`);
  const best = calls.reduce((most, call) => Math.max(most, leadOf(call)), 0);
  if (best > 0) chips.push(`first argument ${duration(best)} early`);
  return chips;
}

// The tab Call

class CallView {
  /** The selected call. @type {Call | null} */
  call = null;
  #hint = make("p", { class: "inspector-hint" }, "Select a call in the timeline.");
  #title = make("h2");
  #facts = make("dl", { class: "inspector-facts" });
  #drawn = "";
  #card = make("tool-call", { open: true, readonly: true });
  #raw = make("pre", { tabindex: 0, "aria-label": "Raw arguments" });
  #copy = button("Copy", "small", () => copyText(this.#copy, this.call?.raw ?? ""));
  #details;

  /** @param {(call: Call) => void} onGoTo */
  constructor(onGoTo) {
    const goTo = button("Show in conversation", "small", () => this.call && onGoTo(this.call));
    this.#details = make(
      "div", { class: "inspector-call" },
      make("div", { class: "inspector-title" }, this.#title, goTo),
      this.#facts,
      make("details", {}, make("summary", { text: "Raw arguments" }), this.#copy, this.#raw),
    );
    this.element = make("section", {}, this.#hint, this.#details);
  }

  draw() {
    const { call } = this;
    this.#hint.hidden = call !== null;
    this.#details.hidden = call === null;
    if (call === null) return;
    setText(this.#title, visibleLine(callTitle(call)));
    if (!this.#card.isConnected) this.#facts.before(this.#card);
    this.#card.call = call;
    this.#card.refresh();
    setText(this.#raw, visible(call.raw));
    const facts = factsOf(call);
    const drawn = JSON.stringify(facts);
    if (drawn === this.#drawn) return;
    this.#drawn = drawn;
    this.#facts.replaceChildren(...makeTerms(facts));
  }
}

/** Return what is known of a call, as terms and texts.
 * @param {Call} call @returns {[string, string][]} */
function factsOf(call) {
  const { request, decision, error } = call;
  /** @param {...(number | null)} times */
  const at = (...times) => times.flatMap((time) => (time === null ? [] : [exact(time)])).join(", ");
  /** @type {[string, string][]} */
  const facts = [
    ["State", stateLabel(call)],
    ["Call ID", call.callId],
    ["Kind", call.kind === "function" ? "" : call.kind],
    ["Turn", call.turn === 0 ? "" : String(call.turn)],
    ["Parent call", call.parentId ?? ""],
    ["Started", at(call.startedAt)],
    ["First argument", at(argumentsOf(call)[0]?.startedAt ?? null)],
    ["Complete", at(call.completedAt)],
    ["Lead time", leadOf(call) > 0 ? exact(leadOf(call)) : ""],
    ["Problem", error?.message ?? ""],
    ["Problem in", pathWords(error?.path ?? [])],
    ["Schema keyword", error?.keyword ?? ""],
    ["Approval requested", at(call.requestedAt)],
    ["Reason", request?.reason ?? ""],
    ["Policy rule", request?.rule ?? ""],
    ["Digest", request?.digest ?? ""],
    ["Decision", decision === null ? "" : DECISIONS[decision.decision]],
    ["Decided", at(call.decidedAt)],
    ["Decision reason", decision?.reason ?? ""],
    ["Applies to", decision === null || decision.always === "call" ? "" : decision.always],
    ["Tool started", at(...call.executedAt)],
    ["Interrupted", call.interruptions > 0 ? countOf(call.interruptions, "time") : ""],
    ["Ended", at(call.endedAt)],
  ];
  return facts.filter(([, text]) => text !== "");
}

// The tab Events

/** Fields that say what an event is about; the first that is there is shown. */
const SUMMARY = [
  "decision", "delta", "text", "prompt", "error", "message", "reason", "result", "stop_reason",
  "cause", "kind",
];
const [JSON_LINE, JSON_AROUND, JSON_LINES] = [18, 28, 12]; // pixels, pixels, lines

class EventList {
  #selected;
  #run = new TimedRun();
  /** The JSON of the events that are open. @type {Map<EventFrame, string>} */
  #open = new Map();
  #only = make("input", { type: "checkbox" });
  #name = make("span");
  #label = make("label", {}, this.#only, this.#name);
  #count = make("span");
  #list = new RowList({
    label: "Events of this run",
    keyOf: (/** @type {EventFrame} */ frame) => frame,
    drawRow: (row, frame) => this.#drawRow(row, frame),
    moreOf: (frame) => this.#heightOf(frame),
    onUnfold: (frame, isOpen) => this.#unfold(frame, isOpen ?? !this.#open.has(frame)),
    onPress: (frame, event) => {
      const isJson = event?.target instanceof Element && event.target.closest("pre") !== null;
      if (!isJson) this.#unfold(frame, !this.#open.has(frame));
    },
  });
  element = make(
    "section", {},
    make("div", { class: "inspector-bar" }, this.#label, this.#count),
    this.#list.element,
  );

  /** @param {() => Call | null} selected returns the selected call */
  constructor(selected) {
    this.#selected = selected;
    this.#only.addEventListener("change", () => this.draw(this.#run));
  }

  /** @param {TimedRun} run */
  draw(run) {
    this.#run = run;
    const call = this.#selected();
    this.#label.hidden = call === null;
    if (call !== null) setText(this.#name, visibleLine(`Only ${callTitle(call)}`));
    const only = this.#only.checked ? call : null;
    const frames = run.frames.filter(({ event }) =>
      only === null || ("call_id" in event && event.call_id === only.callId));
    setText(this.#count, countOf(frames.length, "event"));
    this.#list.show(frames);
  }

  /** @param {EventFrame} frame @param {boolean} isOpen */
  #unfold(frame, isOpen) {
    if (isOpen) this.#open.set(frame, toJson(/** @type {JsonValue} */ (frame.event), 2));
    else this.#open.delete(frame);
    this.draw(this.#run);
  }

  /** @param {EventFrame} frame */
  #heightOf(frame) {
    const lines = this.#open.get(frame)?.split("\n").length ?? 0;
    return lines === 0 ? 0 : JSON_AROUND + JSON_LINE * Math.min(lines, JSON_LINES);
  }

  /** @param {HTMLElement} row @param {EventFrame} frame */
  #drawRow(row, frame) {
    const { seq, time, event } = frame;
    const json = this.#open.get(frame);
    if (row.ariaExpanded === String(json !== undefined)) return; // events do not change
    row.className = "event-row";
    row.ariaExpanded = String(json !== undefined);
    const cells = [
      make("span", { class: "event-number", text: String(seq) }),
      make("span", { class: "event-number", text: exact(time) }),
      makeLine("span", "event-type", event.type),
      makeLine("span", "event-summary", summaryOf(event)),
    ];
    for (const cell of cells) cell.role = "gridcell";
    row.replaceChildren(...cells);
    if (json === undefined) return;
    const pre = make("pre", { tabindex: 0, "aria-label": "Event as JSON", text: json });
    pre.style.height = `${this.#heightOf(frame) - 8}px`;
    row.append(make("div", { class: "event-details", role: "gridcell" }, pre));
  }
}

/** Return what an event is about, in one line. @param {RunEvent} event */
function summaryOf(event) {
  const fields = /** @type {Record<string, JsonValue>} */ (event);
  const value = SUMMARY.map((key) => fields[key]).find((one) => (one ?? "") !== "") ?? "";
  return lineOf(`${fields["name"] ?? ""} ${typeof value === "string" ? value : toJson(value)}`);
}

// The list of rows

const ROW = 24; // pixels, if the style sheet does not say otherwise in --row
const AROUND = 10; // rows beyond both edges that are in the page, too

/**
 * @template Item
 * @typedef {object} RowListOptions
 * @property {string} label
 * @property {(item: Item) => unknown} keyOf what stays the same while the item changes
 * @property {(row: HTMLElement, item: Item) => void} drawRow
 * @property {(item: Item) => number} [moreOf] pixels by which it is higher than a line
 * @property {(item: Item, isOpen: boolean | null) => void} onUnfold null to toggle
 * @property {(item: Item, event: MouseEvent | null) => void} onPress a click, or the Enter key
 * @property {(item: Item | null, row: Element | null) => void} [onPoint] hover and focus
 * @property {() => void} [onResize]
 */

/**
 * A list of rows of which only those in sight are in the page. One row is the tab stop; it stays in
 * the page while it is out of sight, so that it keeps the focus.
 *
 * @template Item
 */
class RowList {
  #options;
  /** @type {Item[]} */ #items = [];
  /** Where each item begins, and where the last one ends, in pixels. */
  #tops = [0];
  /** The rows in the page, by the keys of their items. @type {Map<unknown, HTMLElement>} */
  #drawn = new Map();
  #current = 0;

  /** @param {RowListOptions<Item>} options */
  constructor(options) {
    this.#options = options;
    const { label, onPress, onPoint, onResize } = options;
    this.rows = make("div", { class: "inspector-rows", role: "treegrid", "aria-label": label });
    this.element = make("div", { class: "inspector-list" }, this.rows);
    this.element.addEventListener("scroll", () => paint(this.#paint), { passive: true });
    this.rows.addEventListener("keydown", (event) => this.#pressed(event));
    this.rows.addEventListener("click", (event) => {
      const item = this.#itemAt(event.target);
      if (item !== null) onPress(item, event);
    });
    this.rows.addEventListener("focusin", ({ target }) => this.#focused(target));
    this.rows.addEventListener("pointerover", ({ target }) => {
      onPoint?.(this.#itemAt(target), rowAround(target));
    });
    for (const type of ["pointerleave", "focusout"]) {
      this.rows.addEventListener(type, () => onPoint?.(null, null));
    }
    const observer = new ResizeObserver(() => {
      this.show(this.#items);
      onResize?.();
    });
    observer.observe(this.element);
  }

  /** @param {Item[]} items */
  show(items) {
    const before = this.#items[this.#current];
    const key = before && this.#options.keyOf(before);
    const same = items[this.#current];
    if (before && (same === undefined || this.#options.keyOf(same) !== key)) {
      this.#current = Math.max(0, items.findIndex((item) => this.#options.keyOf(item) === key));
    }
    this.#items = items;
    const row = Number.parseFloat(getComputedStyle(this.rows).getPropertyValue("--row")) || ROW;
    const { moreOf } = this.#options;
    let top = 0;
    this.#tops = [0, ...items.map((item) => (top += row + (moreOf?.(item) ?? 0)))];
    this.rows.hidden = items.length === 0;
    this.rows.ariaRowCount = String(items.length);
    this.rows.style.height = `${top}px`;
    this.#paint();
  }

  /** @param {EventTarget | null} target */
  #itemAt(target) {
    return this.#items[indexOf(rowAround(target))] ?? null;
  }

  focus() {
    const item = this.#items[this.#current];
    if (item !== undefined) this.#drawn.get(this.#options.keyOf(item))?.focus();
  }

  #paint = () => {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, firstIndex(this.#tops, (top) => top > scrollTop) - 1 - AROUND);
    const last = firstIndex(this.#tops, (top) => top >= scrollTop + clientHeight) + AROUND;
    const indexes = this.#items.slice(first, last).map((_, index) => first + index);
    if (this.#current < first) indexes.unshift(this.#current);
    else if (this.#current >= last) indexes.push(this.#current);
    /** @type {Map<unknown, HTMLElement>} */
    const drawn = new Map();
    for (const index of indexes) {
      const item = /** @type {Item} */ (this.#items[index]);
      const key = this.#options.keyOf(item);
      const row = this.#drawn.get(key) ?? make("div", { role: "row" });
      drawn.set(key, row);
      this.#options.drawRow(row, item);
      row.ariaRowIndex = String(index + 1);
      row.tabIndex = index === this.#current ? 0 : -1;
      row.style.setProperty("top", `${this.#tops[index]}px`);
    }
    this.#drawn = drawn;
    setChildren(this.rows, drawn.values());
    return true;
  };

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    const item = this.#itemAt(event.target);
    const isOnRow = rowAround(event.target) === event.target;
    if (item === null || !isOnRow || event.altKey || event.ctrlKey || event.metaKey) return;
    const page = Math.floor(this.element.clientHeight / ROW) - 2;
    const at = indexOf(rowAround(event.target));
    const to = {
      ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page,
      Home: 0, End: Infinity,
    }[event.key];
    const { onUnfold, onPress } = this.#options;
    if (to !== undefined) this.#moveTo(to);
    else if (event.key === "ArrowRight") onUnfold(item, true);
    else if (event.key === "ArrowLeft") onUnfold(item, false);
    else if (event.key === " ") onUnfold(item, null);
    else if (event.key === "Enter") onPress(item, null);
    else return;
    event.preventDefault();
  }

  /** @param {EventTarget | null} target */
  #focused(target) {
    const row = rowAround(target);
    if (row !== null && indexOf(row) !== this.#current) {
      this.#current = indexOf(row);
      this.#paint();
    }
    this.#options.onPoint?.(this.#itemAt(row), row);
  }

  /** @param {number} index */
  #moveTo(index) {
    this.#current = Math.max(0, Math.min(this.#items.length - 1, index));
    const [top = 0, bottom = 0] = this.#tops.slice(this.#current, this.#current + 2);
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (bottom > scrollTop + clientHeight) this.element.scrollTop = bottom - clientHeight;
    this.#paint();
    this.focus();
  }
}

/** Make an element with a text that the model may have written, as one line.
 * @param {"span" | "strong" | "dd"} tag
 * @param {string} name a class
 * @param {string} text */
function makeLine(tag, name, text) {
  const element = make(tag, { class: name });
  element.textContent = visibleLine(text);
  return element;
}

/** Make the elements of a description list. @param {[string, string][]} terms with their texts */
function makeTerms(terms) {
  return terms.flatMap(([term, text]) => [make("dt", { text: term }), makeLine("dd", "", text)]);
}

/** @param {EventTarget | null} target @returns {Element | null} */
function rowAround(target) {
  return target instanceof Element ? target.closest('[role="row"]') : null;
}

/** @param {Element | null} row */
function indexOf(row) {
  return Number(row?.ariaRowIndex ?? 0) - 1;
}

// The axis

/** @typedef {{ begin: number, end: number }} Stretch in seconds */
/** @typedef {{ begin: number, end: number, seconds: number }} Gap begin and end: in percent */

const CUT_BEYOND = 1 / 3; // of the time in which something happened
const LEAST_CUT = 1; // seconds
const GAP = 8; // percent of the axis for each gap …
const ALL_GAPS = 30; // … and for all of them at most
/** Distances of ticks, in seconds. */
const STEPS = [
  ...[-6, -5, -4, -3, -2, -1, 0].flatMap((exponent) =>
    [1, 2, 5].map((digit) => digit * 10 ** exponent)),
  10, 15, 30, 60, 120, 300, 600, 900, 1800,
  ...[1, 2, 3, 6, 12, 24, 48, 96, 168].map((hours) => hours * 3600),
];
const NOISE = 1e-9; // seconds, or steps

/** The time axis that all bars share. It is linear, except that long idle times are cut out: a run
 * that waited until the next morning would otherwise be two thin lines. */
export class TimeAxis {
  /** The parts that are drawn, and where each begins, in percent.
   * @type {(Stretch & { place: number })[]} */
  #drawn = [];
  #gap;
  #scale;

  /** @param {Iterable<Stretch>} busy when something happened
   * @param {Stretch | null} [within] draw only this time */
  constructor(busy, within = null) {
    const stretches = clipped(withShortGaps(busy), within);
    this.begin = stretches[0]?.begin ?? 0;
    this.end = stretches.at(-1)?.end ?? 0;
    const count = stretches.length - 1;
    this.length = totalOf(stretches);
    this.#gap = count > 0 ? Math.min(GAP, ALL_GAPS / count) : 0;
    this.#scale = this.length > NOISE ? (100 - this.#gap * count) / this.length : 0;
    let place = 0;
    for (const { begin, end } of stretches) {
      this.#drawn.push({ begin, end, place });
      place += (end - begin) * this.#scale + this.#gap;
    }
  }

  /** Return the place of a time, in percent; that of an end if it is beyond.
   * @param {number} time */
  of(time) {
    const index = firstIndex(this.#drawn, ({ begin }) => begin > time);
    const last = this.#drawn[index - 1];
    if (last === undefined) return 0;
    const { begin, end, place } = last;
    const next = this.#drawn[index];
    const idle = time > end && next !== undefined ? (time - end) / (next.begin - end) : 0;
    return Math.min(100, place + (Math.min(time, end) - begin) * this.#scale + idle * this.#gap);
  }

  /** Return the time at a place; in a gap, when it begins. @param {number} at in percent */
  timeAt(at) {
    const index = Math.max(1, firstIndex(this.#drawn, ({ place }) => place > at));
    const { begin, end, place } = this.#drawn[index - 1] ?? { begin: 0, end: 0, place: 0 };
    return this.#scale === 0 ? begin : Math.min(end, begin + (at - place) / this.#scale);
  }

  /** The times that are cut out. @returns {Gap[]} */
  get gaps() {
    return this.#drawn.slice(1).map(({ begin, place }, index) => {
      const seconds = begin - (this.#drawn[index]?.end ?? begin);
      return { begin: place - this.#gap, end: place, seconds };
    });
  }

  /** Choose round times to label, not many more than `most`. @param {number} most */
  ticks(most) {
    const { length } = this;
    const count = Math.max(1, most);
    const step = length <= NOISE ? 0 : (STEPS.find((one) => one * count >= length) ?? length);
    const times = this.#drawn.flatMap(({ begin, end }) => {
      const found = multiples(step, begin, end);
      return found.length > 0 ? found : [begin];
    });
    const largest = times.at(-1) ?? 0;
    return times.map((time) => ({ place: this.of(time), label: tickLabel(time, step, largest) }));
  }
}

/** Join stretches, which are in order, if there is not more time between them.
 * @param {readonly Stretch[]} stretches @param {number} most */
function joined(stretches, most) {
  /** @type {Stretch[]} */
  const parts = [];
  for (const { begin, end } of stretches) {
    const last = parts.at(-1);
    if (last !== undefined && begin - last.end <= most) last.end = Math.max(last.end, end);
    else parts.push({ begin, end });
  }
  return parts;
}

/** @param {Stretch[]} stretches */
function totalOf(stretches) {
  return stretches.reduce((sum, { begin, end }) => sum + end - begin, 0);
}

/** Joins busy stretches across short gaps. @param {Iterable<Stretch>} busy */
function withShortGaps(busy) {
  const stretches = joined([...busy].sort((one, other) => one.begin - other.begin), 0);
  const length = totalOf(stretches);
  const longest = length > 0 ? Math.max(LEAST_CUT, CUT_BEYOND * length) : Infinity;
  const first = stretches[0]?.begin ?? 0;
  const begin = first <= longest ? 0 : first;
  return joined([{ begin, end: begin }, ...stretches], longest);
}

/** @param {Stretch[]} stretches @param {Stretch | null} within */
function clipped(stretches, within) {
  if (within === null) return stretches;
  const parts = stretches.map(({ begin, end }) => ({
    begin: Math.max(begin, within.begin),
    end: Math.min(end, within.end),
  }));
  const inside = parts.filter(({ begin, end }) => begin < end);
  return inside.length > 0 ? inside : [{ ...within }];
}

/** @param {number} step @param {number} begin @param {number} end @returns {number[]} */
function multiples(step, begin, end) {
  if (step === 0) return [];
  const first = Math.ceil(begin / step - NOISE);
  const count = Math.floor(end / step + NOISE) - first + 1;
  return Array.from({ length: Math.max(0, count) }, (_, index) => (first + index) * step);
}

/** @param {number} time @param {number} step @param {number} largest of all ticks */
function tickLabel(time, step, largest) {
  if (largest < 0.2) return `${(time * 1000).toFixed(decimalsOf(step * 1000))} ms`;
  return moment(time, decimalsOf(step), largest);
}

/** @param {number} step */
function decimalsOf(step) {
  return step > 0 ? Math.max(0, -Math.floor(Math.log10(step) + NOISE)) : 1;
}

// The rows of the timeline

/** What a row is about. @typedef {TurnTimes | Block | Argument} Timed */

/** @param {Timed} timed */
function kindOf(timed) {
  if (timed instanceof Argument) return "argument";
  return "type" in timed ? timed.type : "turn";
}

/** The arguments of a call, as the model wrote them; of a free-text call, its text.
 * @param {Call} call @returns {Argument[]} */
function argumentsOf({ written, isFreeText }) {
  if (!isFreeText) return written.children;
  return written.startedAt === null ? [] : [written];
}

// Figures and texts. They contain what the model wrote: `visibleLine` must show them.

/** `extent`: a turn. `readable`: from the end of an argument to that of its call.
 * @typedef {"extent" | "call" | "text" | "thinking" | "written" | "readable" | "waiting"
 *   | "running"} Look */
/** @typedef {{ look: Look, begin: number, end: number, isOpen?: boolean }} Bar */
/**
 * What a row shows.
 * @typedef {object} Story
 * @property {string} label
 * @property {string} target the argument that says what a call is about; how a text begins
 * @property {string} note
 * @property {number} firstSeen
 * @property {number | null} complete
 * @property {number | null} lead how long it was visible before the call was complete
 * @property {Bar[]} bars
 * @property {boolean} isBad whether it failed or never completed
 */

const LONGEST_LABEL = 200; // a model may write a name of any length
const LINE_LENGTH = 80;
/** @type {Record<string, string>} */
const VERDICTS = {
  truncated: "incomplete", malformed: "invalid JSON", rejected: "rejected", aborted: "stopped",
};
const DECISIONS = {
  approved: "approved", edited: "approved with edits", denied: "denied",
  expired: "approval expired", withdrawn: "no longer needed",
};

/** The calls of a run, also those of retried turns. @param {Run} run */
function callsOf(run) {
  return run.blocks.filter((block) => block.type === "call");
}

/** @param {Call} call */
function callName({ name, kind }) {
  const label = name.slice(0, LONGEST_LABEL);
  return kind === "function" ? label : `${label} (${kind})`;
}

/** Return the argument that says what a call is about, as one line. @param {Call} call */
function targetOf({ written, isFreeText }) {
  return lineOf((isFreeText ? written : primaryArgument(written))?.text ?? "");
}

/** @param {Call} call */
function callTitle(call) {
  return `${callName(call)} ${targetOf(call)}`.trim();
}

/** Return the beginning of a text as one line. @param {string} text */
function lineOf(text) {
  return oneLine(text.slice(0, 4 * LINE_LENGTH)).slice(0, LINE_LENGTH);
}

/** @param {number} seconds */
function exact(seconds) {
  return moment(seconds, 3);
}

/** Return how long before the end of a call its first argument was visible. @param {Call} call */
function leadOf(call) {
  const [first] = argumentsOf(call); // in the order of time
  if (call.completedAt === null || first === undefined) return 0;
  return call.completedAt - (first.startedAt ?? 0);
}

/** Return when the tool of a call ran, as far as that is known.
 *
 * If another program runs the tool, only the time of the result is known. An attempt that a crash
 * interrupted is drawn up to the next attempt, or to the call's end.
 * @param {Call} call @param {number} now @returns {(Stretch & { isCut: boolean })[]} */
function toolRuns(call, now) {
  const starts = call.executedAt.length > 0 ? call.executedAt : observedStart(call);
  return starts.map((begin, attempt) => ({
    begin,
    end: starts[attempt + 1] ?? call.endedAt ?? now,
    isCut: attempt < call.interruptions,
  }));
}

/** @param {Call} call @returns {number[]} */
function observedStart({ verdict, decision, requestedAt, decidedAt, completedAt, endedAt }) {
  const isAllowed = decision?.decision === "approved" || decision?.decision === "edited";
  const complete = verdict === "complete" ? completedAt : null;
  const allowed = requestedAt === null ? complete : isAllowed ? decidedAt : null;
  return allowed !== null && endedAt !== null && endedAt !== allowed ? [allowed] : [];
}

/** Return when something was written or a tool ran; approvals do not count.
 * @param {Run} run @returns {Stretch[]} */
function busy(run) {
  return run.blocks.flatMap((block) => {
    const begin = block.startedAt ?? 0;
    const written = { begin, end: block.lastTextAt ?? begin };
    if (block.type !== "call") return [written];
    const tools = toolRuns(block, run.time);
    return [written, ...tools.map((one) => ({ ...one, end: one.isCut ? one.begin : one.end }))];
  });
}

/** @param {Story} story */
function timesOf({ firstSeen, complete, lead }) {
  /** @type {[string, string][]} */
  const times = [
    ["First seen", exact(firstSeen)],
    ["Complete", complete === null ? "–" : exact(complete)],
  ];
  if (lead !== null) times.push(["Lead time", exact(lead)]);
  return times;
}

/** @param {Timed} timed
 * @param {Call | null} call that an argument belongs to
 * @param {TimedRun} run @returns {Story} */
export function storyOf(timed, call, run) {
  if (timed instanceof Argument) return argumentStory(timed, /** @type {Call} */ (call));
  if (timed instanceof Call) return callStory(timed, run);
  return "type" in timed ? textStory(timed) : turnStory(timed, run);
}

/** What most rows have. */
const PLAIN = { target: "", note: "", lead: null, isBad: false };

/** @param {TurnTimes} turn @param {TimedRun} run @returns {Story} */
function turnStory(turn, run) {
  const { turn: number, attempt, startedAt, endedAt } = turn;
  const turns = /** @type {TurnTimes[]} */ (run.below(null));
  const next = turns[turns.indexOf(turn) + 1];
  const isLost = (next?.attempt ?? 1) > 1;
  const end = endedAt ?? next?.startedAt ?? run.time;
  const calls = run.below(turn).filter((timed) => timed instanceof Call).length;
  const notes = calls > 0 ? [countOf(calls, "call")] : [];
  if (isLost) notes.push("interrupted, retried");
  const isOpen = endedAt === null && run.end === null && !isLost;
  return {
    ...PLAIN,
    label: `Turn ${number}${attempt > 1 ? `, attempt ${attempt}` : ""}`,
    note: notes.join(", "),
    firstSeen: startedAt,
    complete: endedAt,
    bars: [{ look: "extent", begin: startedAt, end, isOpen }],
    isBad: isLost,
  };
}

/** @param {Text | Thinking} block @returns {Story} */
function textStory({ type, text, startedAt, lastTextAt }) {
  const begin = startedAt ?? 0;
  const end = lastTextAt ?? begin;
  return {
    ...PLAIN,
    label: type === "text" ? "Text" : "Thinking",
    target: lineOf(text),
    firstSeen: begin,
    complete: end,
    bars: [{ look: type, begin, end }],
  };
}

/** @param {Call} call @param {Run} run @returns {Story} */
function callStory(call, run) {
  const { completedAt, requestedAt, decidedAt, endedAt, verdict, decision } = call;
  const goesOn = run.end === null && !call.isLost;
  const begin = call.startedAt ?? 0;
  const isWritten = completedAt === null && goesOn;
  /** @type {Bar[]} */
  const bars = [{ look: "call", begin, end: call.lastTextAt ?? begin, isOpen: isWritten }];
  const notes = [];
  if (completedAt === null) notes.push(isWritten ? "writing" : "never completed");
  const isInvalid = verdict !== null && verdict !== "complete";
  if (isInvalid) notes.push(VERDICTS[verdict] ?? verdict);
  if (call.isLost) notes.push("retried");
  if (requestedAt !== null) {
    const end = decidedAt ?? run.time;
    bars.push({ look: "waiting", begin: requestedAt, end, isOpen: decidedAt === null && goesOn });
    const words = decision === null ? "decided" : DECISIONS[decision.decision];
    const waited = `waited ${duration(end - requestedAt)} for approval: ${words}`;
    if (decidedAt !== null) notes.push(waited);
    else notes.push(goesOn ? "waiting for approval" : "not decided");
  }
  for (const { begin: from, end, isCut } of toolRuns(call, run.time)) {
    const isOpen = endedAt === null && !isCut && goesOn;
    bars.push({ look: "running", begin: from, end, isOpen });
    if (isCut) notes.push("tool interrupted");
    else notes.push(isOpen ? "running" : `ran ${duration(end - from)}`);
  }
  if (call.outcome === "failed" && verdict === "complete") notes.push("failed");
  return {
    label: callName(call),
    target: targetOf(call),
    note: notes.join(", "),
    firstSeen: begin,
    complete: completedAt,
    lead: completedAt === null ? null : completedAt - begin,
    bars,
    isBad: call.isLost || call.outcome === "failed" || isInvalid,
  };
}

/** @param {Argument} argument @param {Call} call @returns {Story} */
function argumentStory(argument, call) {
  const { path, children, doneAt, kind, isDone, value, text } = argument;
  const complete = call.completedAt;
  const begin = argument.startedAt ?? 0;
  const end = doneAt ?? complete ?? call.lastTextAt ?? begin;
  /** @type {Bar[]} */
  const bars = [{ look: "written", begin, end, isOpen: doneAt === null && complete === null }];
  if (complete !== null && complete > end) {
    bars.push({ look: "readable", begin: end, end: complete });
  }
  const isPlain = isDone && (value === null || typeof value !== "object");
  const plain = isPlain ? String(value) : "";
  const size = children.length > 0 ? countOf(children.length, "value") : plain;
  return {
    label: path.length === 0 ? "(text)" : pathWords(path.slice(-1)).slice(0, LONGEST_LABEL),
    target: kind === "string" ? lineOf(text) : size,
    note: complete === null ? "" : `readable ${duration(complete - begin)} early`,
    firstSeen: begin,
    complete: doneAt,
    lead: complete === null ? null : complete - begin,
    bars,
    isBad: doneAt === null && complete !== null,
  };
}
