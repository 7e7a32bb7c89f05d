// What is equal and what differs between two texts, line by line.
//
// Equal lines at both ends are set aside. Between them the shortest way from one text to the other
// is looked for (Myers), within a budget. Where it does not suffice, lines that occur once in each
// text divide the work (patience); where there are none, all is taken for replaced, and it is said
// that the result is rough. So the time is bounded, and applying it always gives both texts.

import { firstIndex } from "./halving.js";

/** @typedef {{ kind: "same" | "removed" | "added", text: string }} LineChange */

// What is said if a comparison is not what it could be.
export const ROUGH = "The texts differ in too much: what seems replaced may have equal lines.";
export const FAILED = "The comparison has failed: this is the whole old text, then the new one.";

const BUDGET = 1_500_000; // steps of the search, for all of a comparison
const LARGEST = 1200; // lines that differ, beyond which no shortest way is looked for

/**
 * Compare two texts, given as lines.
 * @param {readonly string[]} before
 * @param {readonly string[]} after
 * @returns {{ changes: LineChange[], isRough: boolean }} rough: more may be equal than it says
 */
export function lineDiff(before, after) {
  /** @type {LineChange[]} */
  const changes = [];
  const { found, isRough } = matches(before, after);
  found.push([before.length, after.length]);
  let [at, other] = [0, 0];
  for (const [place, partner] of found) {
    for (const text of before.slice(at, place)) changes.push({ kind: "removed", text });
    for (const text of after.slice(other, partner)) changes.push({ kind: "added", text });
    const text = before[place];
    if (text !== undefined) changes.push({ kind: "same", text });
    [at, other] = [place + 1, partner + 1];
  }
  return { changes, isRough };
}

/** @typedef {[place: number, partner: number]} Pair */
/** @typedef {[from: number, to: number, otherFrom: number, otherTo: number]} Section */

/**
 * Give the places of equal lines, in order.
 * @param {readonly string[]} before
 * @param {readonly string[]} after
 * @returns {{ found: Pair[], isRough: boolean }}
 */
function matches(before, after) {
  const [one, other] = numbered(before, after);
  /** @type {Pair[]} */
  const found = [];
  let budget = BUDGET;
  let isRough = false;
  /** @type {Section[]} */
  const sections = [[0, one.length, 0, other.length]];
  for (let next = sections.pop(); next !== undefined; next = sections.pop()) {
    let [from, to, otherFrom, otherTo] = next;
    while (from < to && otherFrom < otherTo && one[from] === other[otherFrom]) {
      found.push([from++, otherFrom++]);
    }
    while (from < to && otherFrom < otherTo && one[to - 1] === other[otherTo - 1]) {
      found.push([--to, --otherTo]);
    }
    if (from === to || otherFrom === otherTo) continue;
    const way = shortestWay(one, other, [from, to, otherFrom, otherTo], budget);
    budget -= way.steps;
    if (way.matches !== null) {
      for (const pair of way.matches) found.push(pair); // too many for the arguments of one call
      continue;
    }
    const anchors = onceInEach(one, other, [from, to, otherFrom, otherTo]);
    if (anchors.length === 0) {
      isRough ||= haveSome(one.subarray(from, to), other.subarray(otherFrom, otherTo));
      continue;
    }
    for (const pair of anchors) found.push(pair);
    for (const [place, partner] of [...anchors, /** @type {Pair} */ ([to, otherTo])]) {
      sections.push([from, place, otherFrom, partner]);
      [from, otherFrom] = [place + 1, partner + 1];
    }
  }
  found.sort(([place], [another]) => place - another);
  return { found, isRough };
}

/**
 * Say whether two texts have a line in common.
 * @param {Int32Array} one
 * @param {Int32Array} other
 */
function haveSome(one, other) {
  const lines = new Set(one);
  return other.some((line) => lines.has(line));
}

/**
 * Give each different line a number, so that to compare two is one step.
 * @param {readonly string[]} before
 * @param {readonly string[]} after
 * @returns {[Int32Array, Int32Array]}
 */
function numbered(before, after) {
  /** @type {Map<string, number>} */
  const numbers = new Map();
  /** @param {string} line */
  const numberOf = (line) => {
    const number = numbers.get(line) ?? numbers.size;
    numbers.set(line, number);
    return number;
  };
  return [Int32Array.from(before, numberOf), Int32Array.from(after, numberOf)];
}

/**
 * Find the most equal lines of a section, as Myers does: for each number of differences, how far
 * one gets on each diagonal. Null if there are too many differences.
 * @param {Int32Array} one
 * @param {Int32Array} other
 * @param {Section} section
 * @param {number} budget
 * @returns {{ matches: Pair[] | null, steps: number }}
 */
function shortestWay(one, other, [from, to, otherFrom, otherTo], budget) {
  const width = to - from;
  const height = otherTo - otherFrom;
  const most = Math.min(width + height, LARGEST);
  const middle = most + 1;
  const reached = new Int32Array(2 * middle + 1);
  /** @type {Int32Array[]} */
  const history = [];
  let steps = 0;
  for (let differences = 0; differences <= most && steps < budget; differences += 1) {
    history.push(reached.slice(middle - differences, middle + differences + 1));
    for (let diagonal = -differences; diagonal <= differences; diagonal += 2) {
      const isDown =
        diagonal === -differences ||
        (diagonal !== differences &&
          read(reached, middle + diagonal - 1) < read(reached, middle + diagonal + 1));
      const neighbour = middle + diagonal + (isDown ? 1 : -1);
      let x = read(reached, neighbour) + (isDown ? 0 : 1);
      let y = x - diagonal;
      while (x < width && y < height && one[from + x] === other[otherFrom + y]) {
        x += 1;
        y += 1;
        steps += 1;
      }
      reached[middle + diagonal] = x;
      steps += 1;
      if (x >= width && y >= height) {
        return { matches: wayBack(history, width, height, from, otherFrom), steps };
      }
    }
  }
  return { matches: null, steps };
}

/**
 * Go back the way that was found, and collect the equal lines on it.
 * @param {Int32Array[]} history how far it was before each number of differences
 * @param {number} x
 * @param {number} y
 * @param {number} from
 * @param {number} otherFrom
 */
function wayBack(history, x, y, from, otherFrom) {
  /** @type {Pair[]} */
  const found = [];
  for (let differences = history.length - 1; differences >= 0; differences -= 1) {
    const reached = history[differences] ?? new Int32Array();
    const diagonal = x - y;
    const isDown =
      diagonal === -differences ||
      (diagonal !== differences &&
        read(reached, diagonal - 1 + differences) < read(reached, diagonal + 1 + differences));
    const before = isDown ? diagonal + 1 : diagonal - 1;
    const beforeX = differences === 0 ? 0 : read(reached, before + differences);
    const beforeY = differences === 0 ? 0 : beforeX - before;
    while (x > beforeX && y > beforeY) {
      x -= 1;
      y -= 1;
      found.push([from + x, otherFrom + y]);
    }
    [x, y] = [beforeX, beforeY];
  }
  return found;
}

/**
 * Find lines that occur once in each side of a section, as many as stand in the same order.
 * @param {Int32Array} one
 * @param {Int32Array} other
 * @param {Section} section
 * @returns {Pair[]}
 */
function onceInEach(one, other, [from, to, otherFrom, otherTo]) {
  const places = once(one, from, to);
  const partners = once(other, otherFrom, otherTo);
  /** @typedef {{ place: number, partner: number, before: Link | undefined }} Link */
  /** @type {Link[]} the last one of the best row of each length */
  const ends = [];
  for (const [line, place] of places) {
    const partner = partners.get(line) ?? -1;
    if (place < 0 || partner < 0) continue;
    const at = firstIndex(ends, (link) => link.partner >= partner);
    ends[at] = { place, partner, before: ends[at - 1] };
  }
  /** @type {Pair[]} */
  const found = [];
  for (let link = ends.at(-1); link !== undefined; link = link.before) {
    found.push([link.place, link.partner]);
  }
  return found.reverse();
}

/**
 * Give the place of each line in their order, or -1 if it occurs again.
 * @param {Int32Array} lines
 * @param {number} from
 * @param {number} to
 */
function once(lines, from, to) {
  /** @type {Map<number, number>} */
  const places = new Map();
  for (let at = from; at < to; at += 1) {
    const line = read(lines, at);
    places.set(line, places.has(line) ? -1 : at);
  }
  return places;
}

/**
 * @param {Int32Array} numbers
 * @param {number} at
 */
function read(numbers, at) {
  return numbers[at] ?? 0;
}
