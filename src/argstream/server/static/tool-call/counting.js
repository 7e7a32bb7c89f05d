// How much of a call's arguments is written: what a counter shows, which moves with each piece.
//
// What is settled is counted once: of an object or an array that grows, the sum of what stands
// before its first open value is known. Of arguments that are there all at once only so much is
// counted at a time, and the rest when it is asked again.

/** @typedef {import("./looks.js").Argument} Argument */

/**
 * Characters as they are shown, and the lines of texts that have several.
 * @typedef {{ characters: number, lines: number }} Sum
 */

/**
 * The sum of children before a place.
 * @typedef {Sum & { children: Argument[], at: number }} Known
 */

const MOST = 20_000; // values that are counted at a time

/** Counts the characters and lines of arguments that grow; each character is looked at once. */
export class Counting {
  /** @type {WeakMap<Argument, Known>} */
  #branches = new WeakMap();
  /** @type {WeakMap<Argument, { length: number, newlines: number }>} */
  #texts = new WeakMap();
  /** @type {Sum} */
  #last = { characters: 0, lines: 0 };
  #left = 0;

  /**
   * Count what there is by now; `isWhole` says whether that is all.
   * @param {Argument} argument
   * @returns {Sum & { isWhole: boolean }}
   */
  count(argument) {
    /** @type {Sum} */
    const sum = { characters: 0, lines: 0 };
    this.#left = MOST;
    this.#add(argument, sum);
    const isWhole = this.#left > 0;
    // If the arguments are others all at once, the number does not run up from nothing again.
    const { characters, lines } = this.#last;
    this.#last = isWhole
      ? sum
      : { characters: Math.max(characters, sum.characters), lines: Math.max(lines, sum.lines) };
    return { ...this.#last, isWhole };
  }

  /**
   * @param {Argument} argument
   * @param {Sum} sum
   */
  #add(argument, sum) {
    const { key, kind, isDone } = argument;
    this.#left -= 1;
    if (typeof key === "string") sum.characters += key.length;
    if (kind === "string") {
      const newlines = this.#newlines(argument);
      sum.characters += argument.text.length;
      if (newlines) sum.lines += newlines + 1;
    } else if (argument.children.length > 0) {
      this.#addBranch(argument, sum);
    } else if (isDone) {
      sum.characters += kind === "object" || kind === "array" ? 2 : String(argument.value).length;
    }
  }

  /**
   * @param {Argument} argument
   * @param {Sum} sum
   */
  #addBranch(argument, sum) {
    const { children } = argument;
    let known = this.#branches.get(argument);
    if (known?.children !== children) {
      known = { children, at: 0, characters: 0, lines: 0 };
      this.#branches.set(argument, known);
    }
    const before = { ...sum };
    sum.characters += known.characters;
    sum.lines += known.lines;
    for (let at = known.at; at < children.length && this.#left > 0; at += 1) {
      const child = /** @type {Argument} */ (children[at]);
      this.#add(child, sum);
      if (this.#left <= 0 || !child.isDone || at !== known.at) continue;
      known.at += 1;
      known.characters = sum.characters - before.characters;
      known.lines = sum.lines - before.lines;
      this.#branches.delete(child);
      this.#texts.delete(child);
    }
  }

  /** @param {Argument} argument */
  #newlines(argument) {
    const { text } = argument;
    let known = this.#texts.get(argument);
    if (known === undefined || text.length < known.length) {
      known = { length: 0, newlines: 0 };
      this.#texts.set(argument, known);
    }
    if (text.length > known.length) {
      let at = text.indexOf("\n", known.length);
      for (; at >= 0; at = text.indexOf("\n", at + 1)) known.newlines += 1;
      known.length = text.length;
    }
    return known.newlines;
  }
}
