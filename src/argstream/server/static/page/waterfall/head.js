/**
 * What stands around the rows of a waterfall: what was gained, what the bars mean, the axis with
 * its ticks, and what of it is left out.
 */

import { make, setText } from "../../tool-call/dom.js";
import { visibleLine } from "../../tool-call/visible.js";
import { duration } from "../times.js";

/** @import { Tick, TimeAxis } from "./time-axis.js" */

/** @typedef {{colour: string, from: number, to: number}} Strip its edges are in pixels */

const COLUMNS = ["What", "Visible at", "Settled at", "Sooner"];
const MEANINGS = {
  call: "call is written",
  written: "argument is written",
  readable: "readable before the call is whole",
  waiting: "waits for a person",
  running: "tool runs",
};
const TICK_WIDTH = 72; // pixels from one tick to the next, at least
const CHARACTER = 7; // pixels
const LAST = 88; // percent, from where on a label stands before its tick
const LINE = [{ colour: "var(--waterfall-tick)", from: 0, to: 1 }];
const CUT = [
  { colour: "var(--waterfall-cut)", from: -4, to: -3 },
  { colour: "var(--argstream-paper)", from: -3, to: 3 },
  { colour: "var(--waterfall-cut)", from: 3, to: 4 },
];
const CAPTION =
  "When what of this run could be seen, in seconds since it began; " +
  "sooner: how long before its call was whole";

/** The parts around the rows. */
export class WaterfallHead {
  gain = make("p", { class: "waterfall-gain" });
  legend = make(
    "ul",
    { class: "waterfall-legend", "aria-label": "What the bars mean" },
    ...Object.entries(MEANINGS).map(([look, words]) =>
      make(
        "li",
        {},
        make("span", { class: `waterfall-swatch waterfall-${look}`, "aria-hidden": "true" }),
        words,
      ),
    ),
  );
  caption = make("caption", { class: "unseen", text: CAPTION });
  axis = make("div", { class: "waterfall-axis", "aria-hidden": "true" });
  element = make(
    "thead",
    { role: "rowgroup" },
    make(
      "tr",
      { role: "row" },
      ...COLUMNS.map((text) => make("th", { scope: "col", role: "columnheader", text })),
      make(
        "th",
        { scope: "col", role: "columnheader", class: "waterfall-when" },
        make("span", { class: "unseen", text: "From when to when" }),
        this.axis,
      ),
    ),
  );
  leftOut = make("p", { class: "waterfall-left-out", hidden: true });
  #drawn = "";

  /** Say what was gained, or why nothing is known of it. @param {string} words */
  say(words) {
    setText(this.gain, visibleLine(words));
  }

  /** @param {TimeAxis} axis */
  drawAxis(axis) {
    const ticks = fitting(axis, this.axis.clientWidth);
    const { gaps } = axis;
    const drawn = JSON.stringify([ticks, gaps]);
    if (drawn === this.#drawn) return;
    this.#drawn = drawn;
    this.axis.replaceChildren(...ticks.map(tickElement));
    const table = this.element.parentElement;
    table?.style.setProperty("--waterfall-grid", strips(ticks.map(({ place }) => place), LINE));
    const cuts = gaps.map(({ begin, end }) => (begin + end) / 2);
    table?.style.setProperty("--waterfall-cuts", strips(cuts, CUT));
    const seconds = gaps.reduce((sum, gap) => sum + gap.seconds, 0);
    this.leftOut.hidden = gaps.length === 0;
    this.leftOut.textContent =
      `‖ ${duration(seconds)} are left out, in which nothing was written ` +
      "and no tool is known to have run.";
  }

  clear() {
    this.#drawn = "";
    this.axis.replaceChildren();
    this.gain.textContent = "";
    this.leftOut.hidden = true;
  }
}

/**
 * Choose as many ticks as can be labelled.
 *
 * @param {TimeAxis} axis
 * @param {number} width in pixels
 * @returns {Tick[]}
 */
function fitting(axis, width) {
  if (width === 0) return [];
  let free = 0;
  return axis.ticks(Math.max(2, Math.floor(width / TICK_WIDTH))).filter(({ place, label }) => {
    const size = (label.length + 2) * CHARACTER;
    const begin = (place / 100) * width - (place > LAST ? size : 0);
    if (begin < free) return false;
    free = begin + size;
    return true;
  });
}

/** @param {Tick} tick */
function tickElement({ place, label }) {
  const element = make("span", { class: "waterfall-tick", text: label });
  element.classList.toggle("waterfall-tick-last", place > LAST);
  element.style.setProperty("--begin", `${place.toFixed(3)}%`);
  return element;
}

/**
 * Strips from top to bottom at these places, with nothing between them, as one picture.
 *
 * @param {number[]} places in percent
 * @param {readonly Strip[]} colours side by side
 */
function strips(places, colours) {
  if (places.length === 0) return "none";
  const stops = places.flatMap((place) => {
    /** @param {number} offset */
    const edge = (offset) => `calc(${place.toFixed(3)}% + ${offset}px)`;
    const inside = colours.flatMap(({ colour, from, to }) => [
      `${colour} ${edge(from)}`,
      `${colour} ${edge(to)}`,
    ]);
    const [begin, end] = [colours.at(0)?.from ?? 0, colours.at(-1)?.to ?? 0];
    return [`transparent ${edge(begin)}`, ...inside, `transparent ${edge(end)}`];
  });
  return `linear-gradient(90deg, ${stops.join(", ")})`;
}
