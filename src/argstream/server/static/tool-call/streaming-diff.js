// A diff while the new text is still being written; argstream/terminal/_diff.py is the
// same, and explains it. A new line that equals the next old one is settled at once. From the first
// that does not, lines are held until it is sure where the texts meet again.

import { firstIndex } from "./halving.js";
import { lineDiff } from "./line-diff.js";

/** @typedef {import("./line-diff.js").LineChange} LineChange */

const WINDOW = 300; // old lines among which a new one is looked for
const MOST_HELD = 300;
const PROOF = 25; // for every so many lines that a meeting is away, one more must be equal
const TRIED = 10; // places of a line that occurs again and again
const SAYS_LITTLE = new Set(
  "begin break continue do done else else: end endif fi finally: pass return return; then try try:"
    .split(" "),
);

export class StreamingDiff {
  /** @param {readonly string[]} old */
  constructor(old) {
    this.#old = old;
    old.forEach((line, place) => {
      const places = this.#places.get(line);
      if (places) places.push(place);
      else this.#places.set(line, [place]);
    });
  }

  #old;
  #at = 0;
  /** @type {string[]} */
  #held = [];
  /** @type {Map<string, number[]>} */
  #places = new Map();

  /** Whether more may be equal than was said. */
  isRough = false;

  /** How many old lines are settled. */
  get at() {
    return this.#at;
  }

  /** How many new lines are not settled. */
  get held() {
    return this.#held.length;
  }

  /**
   * Take the next new line, and give what is certain now.
   * @param {string} line
   * @returns {LineChange[]}
   */
  add(line) {
    if (this.#held.length === 0) {
      if (this.#at === this.#old.length) return [{ kind: "added", text: line }];
      if (this.#old[this.#at] === line) {
        this.#at += 1;
        return [{ kind: "same", text: line }];
      }
    }
    this.#held.push(line);
    const meeting = this.#meeting();
    if (meeting !== null) return this.#settle(...meeting);
    if (this.#held.length <= MOST_HELD) return [];
    return [{ kind: "added", text: /** @type {string} */ (this.#held.shift()) }];
  }

  /**
   * Say that the new text is over, and give the rest.
   * @returns {LineChange[]}
   */
  finish() {
    return this.#settle(this.#old.length, 0);
  }

  /**
   * Go on from a place in the old text, before which so many lines are known as equal.
   * @param {number} place
   * @param {number} run
   * @returns {LineChange[]}
   */
  #settle(place, run) {
    const split = this.#held.length - run;
    const old = this.#old.slice(this.#at, place - run);
    const { changes, isRough } = lineDiff(old, this.#held.slice(0, split));
    this.isRough ||= isRough;
    for (const text of this.#held.slice(split)) changes.push({ kind: "same", text });
    this.#at = place;
    this.#held = [];
    return changes;
  }

  /**
   * Find where the newest line has an equal that is not equal by chance.
   * @returns {[place: number, run: number] | null}
   */
  #meeting() {
    const places = this.#places.get(this.#held.at(-1) ?? "") ?? [];
    const first = firstIndex(places, (place) => place >= this.#at);
    const end = firstIndex(places, (place) => place >= this.#at + WINDOW);
    for (const place of places.slice(first, Math.min(end, first + TRIED))) {
      const { run, telling } = this.#run(place, 2 + WINDOW / PROOF);
      const away = place + 1 - run - this.#at;
      const isSure = away === 0 || run > 1 || end - first === 1;
      if (isSure && telling > Math.floor(away / PROOF)) {
        return [place + 1, this.#run(place, this.#held.length).run];
      }
    }
    return null;
  }

  /**
   * Count the equal lines before and at a place, and those of them that say something.
   * @param {number} place
   * @param {number} limit
   */
  #run(place, limit) {
    const most = Math.min(limit, this.#held.length, place + 1 - this.#at);
    let run = 0;
    let telling = 0;
    while (run < most) {
      const line = this.#held[this.#held.length - 1 - run];
      if (line === undefined || this.#old[place - run] !== line) break;
      run += 1;
      telling += saysSomething(line) ? 1 : 0;
    }
    return { run, telling };
  }
}

/** @param {string} line */
function saysSomething(line) {
  const bare = line.trim();
  return !SAYS_LITTLE.has(bare) && /[\p{L}\p{N}]/u.test(bare);
}
