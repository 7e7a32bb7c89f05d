/**
 * The one axis that all bars of a waterfall share. It is linear, but for long stretches in which
 * nothing happened: a run that waited for a person until the next morning would otherwise be two
 * hair lines. Those are cut out, and that is shown and said.
 */

import { firstIndex } from "../../tool-call/halving.js";
import { moment } from "../times.js";

/** @typedef {{begin: number, end: number}} Stretch from here to there, in seconds */
/** @typedef {{place: number, label: string}} Tick a place of the axis, in percent */
/** @typedef {{begin: number, end: number, seconds: number}} Gap what is left out, in percent */

const CUT_BEYOND = 1 / 3; // of the time in which something happened
const LEAST_CUT = 1; // seconds: what is shorter is no pause
const GAP = 8; // percent of the axis for each gap …
const ALL_GAPS = 30; // … and for all of them at most
const STEPS = [1, 2, 5]; // of each power of ten, up to ten seconds
const LONG_STEPS = [10, 15, 30, 60, 120, 300, 600, 900, 1800];
const HOURS = [1, 2, 3, 6, 12, 24, 48, 96, 168];
const NOISE = 1e-9; // seconds, or steps: what is shorter is none

/**
 * Join stretches that touch or overlap, in their order.
 *
 * @param {Iterable<Stretch>} stretches
 * @returns {Stretch[]}
 */
export function merged(stretches) {
  /** @type {Stretch[]} */
  const joined = [];
  for (const { begin, end } of [...stretches].sort((a, b) => a.begin - b.begin)) {
    const last = joined.at(-1);
    if (last !== undefined && begin <= last.end) last.end = Math.max(last.end, end);
    else joined.push({ begin, end });
  }
  return joined;
}

/** Where on a picture a time is. */
export class TimeAxis {
  /** What is drawn, and where that begins, in percent. @type {(Stretch & {place: number})[]} */
  #drawn = [];
  #gap;
  #scale;

  /**
   * @param {Iterable<Stretch>} busy when something happened: that is drawn
   * @param {{isGrowing?: boolean}} [options] isGrowing: leave room for more, so that what is drawn
   *   stays where it is for a while
   */
  constructor(busy, { isGrowing = false } = {}) {
    const stretches = kept(merged(busy));
    const last = stretches.at(-1);
    if (isGrowing && last !== undefined) last.end += spare(total(stretches));
    const count = stretches.length - 1;
    this.length = total(stretches);
    this.#gap = count > 0 ? Math.min(GAP, ALL_GAPS / count) : 0;
    this.#scale = this.length > NOISE ? (100 - this.#gap * count) / this.length : 0;
    let place = 0;
    for (const { begin, end } of stretches) {
      this.#drawn.push({ begin, end, place });
      place += (end - begin) * this.#scale + this.#gap;
    }
  }

  /**
   * Say where a time is, in percent; what is beyond an end is at that end.
   *
   * @param {number} time
   */
  of(time) {
    const index = firstIndex(this.#drawn, ({ begin }) => begin > time);
    const last = this.#drawn[index - 1];
    if (last === undefined) return 0;
    const { begin, end, place } = last;
    if (time <= end) return Math.min(100, place + (time - begin) * this.#scale);
    const edge = place + (end - begin) * this.#scale;
    const next = this.#drawn[index];
    if (next === undefined) return Math.min(100, edge);
    return edge + ((time - end) / (next.begin - end)) * this.#gap;
  }

  /** What is left out. @returns {Gap[]} */
  get gaps() {
    let before = Infinity;
    return this.#drawn.flatMap(({ begin, end, place }) => {
      const gap = { begin: place - this.#gap, end: place, seconds: begin - before };
      before = end;
      return gap.seconds > 0 ? [gap] : [];
    });
  }

  /**
   * Choose round times to label, not many more than `most`.
   *
   * @param {number} most
   * @returns {Tick[]}
   */
  ticks(most) {
    const step = stepOf(this.length, Math.max(1, most));
    const times = this.#drawn.flatMap(({ begin, end }) => {
      const found = multiples(step, begin, end);
      return found.length > 0 ? found : [begin];
    });
    const largest = /** @type {number} */ (times.at(-1));
    return times.map((time) => ({ place: this.of(time), label: labelOf(time, step, largest) }));
  }
}

/** @param {Stretch[]} stretches */
function total(stretches) {
  return stretches.reduce((sum, { begin, end }) => sum + end - begin, 0);
}

/**
 * Say how much is missing to a round length.
 *
 * @param {number} length
 */
function spare(length) {
  if (length <= NOISE) return 0;
  const unit = 10 ** Math.floor(Math.log10(length)) / 2;
  return (Math.floor(length / unit) + 1) * unit - length;
}

/**
 * Say which parts of the axis are drawn: what lies between is, too, unless it is long.
 *
 * @param {Stretch[]} busy
 * @returns {Stretch[]}
 */
function kept(busy) {
  const [first, ...rest] = busy;
  if (first === undefined) return [{ begin: 0, end: 0 }];
  const length = total(busy);
  const longest = length > 0 ? Math.max(LEAST_CUT, CUT_BEYOND * length) : Infinity;
  let last = { begin: first.begin <= longest ? 0 : first.begin, end: first.end };
  const stretches = [last];
  for (const stretch of rest) {
    if (stretch.begin - last.end <= longest) last.end = stretch.end;
    else stretches.push((last = { ...stretch }));
  }
  return stretches;
}

/**
 * Choose the distance of labels: the least round one of which not too many fit.
 *
 * @param {number} length
 * @param {number} most
 */
function stepOf(length, most) {
  if (length <= NOISE) return 0;
  for (const step of roundSteps(length / most)) if (step * most >= length) return step;
  return length;
}

/** @param {number} least @returns {Generator<number, void>} growing, from about that on */
function* roundSteps(least) {
  for (let exponent = Math.max(-6, Math.floor(Math.log10(least))); exponent < 1; exponent += 1) {
    for (const digit of STEPS) yield digit * 10 ** exponent;
  }
  yield* LONG_STEPS;
  for (const hours of HOURS) yield hours * 3600;
}

/** @param {number} step @param {number} begin @param {number} end @returns {number[]} */
function multiples(step, begin, end) {
  if (step === 0) return [];
  const first = Math.ceil(begin / step - NOISE);
  const count = Math.floor(end / step + NOISE) - first + 1;
  return Array.from({ length: Math.max(0, count) }, (_, index) => (first + index) * step);
}

/**
 * Write a time, in the unit that the largest one calls for, as exactly as the step does.
 *
 * @param {number} time
 * @param {number} step
 * @param {number} largest
 */
function labelOf(time, step, largest) {
  if (largest < 0.2) return `${(time * 1000).toFixed(decimals(step * 1000))} ms`;
  return moment(time, { digits: decimals(step), longest: largest });
}

/** @param {number} step */
function decimals(step) {
  return step > 0 ? Math.max(0, -Math.floor(Math.log10(step) + NOISE)) : 1;
}
