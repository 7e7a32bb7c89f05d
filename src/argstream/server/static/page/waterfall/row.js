/**
 * One row of a waterfall as elements: a row of a real table, so that who hears it gets the numbers
 * that others see as bars. Roles are said although the elements have them: on a phone rows are laid
 * out as grids, and some browsers take that for a sign that they are no rows.
 */

import { make, setText } from "../../tool-call/dom.js";
import { visibleLine } from "../../tool-call/visible.js";
import { duration, moment } from "../times.js";

/** @import { Bar, Story } from "./story.js" */
/** @import { TimeAxis } from "./time-axis.js" */

const MARKS = new Map([
  ["good", "✓"],
  ["bad", "✗"],
  ["open", "…"],
]);

const HARDLY = 0.1; // seconds that nobody notices

/** A row about something that has times. */
export class WaterfallRow {
  #label = make("span", { class: "waterfall-label" });
  /** @type {HTMLButtonElement | null} */
  #button = null;
  #note = make("span", { class: "waterfall-note" });
  #what = make("div", { class: "waterfall-what" }, this.#label, this.#note);
  #visible = make("td", { class: "waterfall-number", role: "cell" });
  #settled = make("td", { class: "waterfall-number", role: "cell" });
  #sooner = make("td", { class: "waterfall-number waterfall-sooner", role: "cell" });
  #track = make("div", { class: "waterfall-track", "aria-hidden": "true" });
  #mark = make("span", { class: "waterfall-mark" });
  #exactly = make("span", { class: "unseen" });
  /** @type {HTMLElement[]} */
  #bars = [];
  /** @type {Map<HTMLElement, string>} */
  #said = new Map();

  /** @param {string} kind */
  constructor(kind) {
    this.element = make(
      "tr",
      { class: `waterfall-row waterfall-row-${kind}`, role: "row", tabindex: -1 },
      make("th", { scope: "row", role: "rowheader" }, this.#what),
      this.#visible,
      this.#settled,
      this.#sooner,
      make("td", { class: "waterfall-when", role: "cell" }, this.#track, this.#exactly),
    );
  }

  /**
   * Show what is known by now.
   *
   * @param {Story} story
   * @param {TimeAxis} axis
   * @param {object} place
   * @param {number} place.depth
   * @param {boolean | null} place.isOpen whether what is below it is shown; null if nothing is
   * @param {boolean} place.isLost
   * @param {number} place.longest the last time that any row tells
   */
  update(story, axis, { depth, isOpen, isLost, longest }) {
    this.element.classList.toggle("waterfall-lost", isLost);
    const deep = String(Math.min(depth, 6));
    if (this.#what.style.getPropertyValue("--depth") !== deep) {
      this.#what.style.setProperty("--depth", deep);
    }
    this.#fold(isOpen);
    this.#say(this.#label, story.label);
    this.#say(this.#note, story.note);
    const { settledAt, sooner } = story;
    this.#say(this.#visible, moment(story.visibleAt, { longest }));
    this.#say(this.#settled, settledAt === null ? "–" : moment(settledAt, { longest }));
    this.#say(this.#sooner, sooner === null ? "" : duration(sooner));
    this.#sooner.classList.toggle("waterfall-hardly", sooner !== null && sooner < HARDLY);
    this.#say(this.#exactly, story.exactly.join(", "));
    this.#draw(story, axis);
  }

  /** Make the label a button if there is something to fold. @param {boolean | null} isOpen */
  #fold(isOpen) {
    if (isOpen === null) return;
    if (this.#button === null) {
      // Rows are what the keyboard walks through: the button is for pointers and screen readers.
      this.#button = make("button", { class: "waterfall-fold", type: "button", tabindex: -1 });
      this.#label.replaceWith(this.#button);
      this.#button.append(this.#label);
    }
    const expanded = String(isOpen);
    if (this.#button.ariaExpanded !== expanded) this.#button.ariaExpanded = expanded;
  }

  /** @param {HTMLElement} element @param {string} text */
  #say(element, text) {
    if (this.#said.get(element) === text) return;
    this.#said.set(element, text);
    element.textContent = visibleLine(text);
  }

  /** @param {Story} story @param {TimeAxis} axis */
  #draw({ bars, mark }, axis) {
    while (this.#bars.length > bars.length) this.#bars.pop()?.remove();
    bars.forEach((bar, index) => this.#place(this.#bar(index), bar, axis));
    this.#say(this.#mark, MARKS.get(mark) ?? "");
    name(this.#mark, `waterfall-mark waterfall-mark-${mark}`);
    const last = bars.reduce((end, bar) => Math.max(end, axis.of(bar.end)), 0);
    move(this.#mark, "--begin", last);
    if (this.#mark.parentNode === null) this.#track.append(this.#mark);
  }

  /** @param {number} index */
  #bar(index) {
    const known = this.#bars[index];
    if (known !== undefined) return known;
    const bar = make("span");
    this.#bars.push(bar);
    this.#mark.before(bar);
    if (bar.parentNode === null) this.#track.append(bar);
    return bar;
  }

  /** @param {HTMLElement} element @param {Bar} bar @param {TimeAxis} axis */
  #place(element, { look, begin, end, isOpen = false }, axis) {
    name(element, `waterfall-bar waterfall-${look}${isOpen ? " waterfall-open" : ""}`);
    const from = axis.of(begin);
    move(element, "--begin", from);
    move(element, "--size", axis.of(end) - from);
  }
}

/** The row that offers what is not shown yet. */
export class MoreRow {
  constructor() {
    this.button = make("button", { class: "small", type: "button", tabindex: -1 });
    this.element = make(
      "tr",
      { class: "waterfall-row", role: "row", tabindex: -1 },
      make("td", { colspan: 5, role: "cell" }, this.button),
    );
  }

  /** @param {number} next how many one gets @param {number} left */
  update(next, left) {
    const text = next < left ? `Show ${next} more of ${left}` : `Show ${left} more`;
    setText(this.button, text);
  }
}

/**
 * Set a place on the axis, if it is another one: what stays as it is costs nothing.
 *
 * @param {HTMLElement} element
 * @param {"--begin" | "--size"} property
 * @param {number} value in percent
 */
function move(element, property, value) {
  const percent = `${value.toFixed(3)}%`;
  if (element.style.getPropertyValue(property) === percent) return;
  element.style.setProperty(property, percent);
}

/** @param {HTMLElement} element @param {string} classes */
function name(element, classes) {
  if (element.className !== classes) element.className = classes;
}
