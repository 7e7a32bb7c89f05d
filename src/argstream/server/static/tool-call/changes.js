// What differs between the arguments that the model wrote and others, argument by argument: strings
// as their lines, everything else as JSON.

import { toJson } from "../argstream.js";
import { addInOrder } from "./directions.js";
import { make, setText } from "./dom.js";
import { HunksView } from "./hunks.js";
import { visibleLine } from "./visible.js";
import { countOf } from "./words.js";

const MOST = 100; // arguments whose changes are shown

/** @import { JsonObject, JsonValue } from "../argstream.js" */

/** @typedef {{ key: string, before: string, after: string, note: string }} Change */

/**
 * Find the arguments that differ, in order.
 * @param {JsonObject} before
 * @param {JsonObject} after
 * @returns {Change[]}
 */
export function changedArguments(before, after) {
  const changes = [];
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const was = Object.hasOwn(before, key) ? before[key] : undefined;
    const is = Object.hasOwn(after, key) ? after[key] : undefined;
    if (isSame(was, is)) continue;
    // A text and a number can look alike: as JSON they do not.
    const isText = [was, is].every((value) => typeof value === "string" || value === undefined);
    const note = was === undefined ? "new" : is === undefined ? "taken away" : "";
    changes.push({ key, note, before: textOf(was, isText), after: textOf(is, isText) });
  }
  return changes;
}

/** Shows them. */
export class ChangesView {
  /** @type {Map<string, { element: HTMLElement, note: HTMLElement, view: HunksView }>} */
  #sections = new Map();
  #note = make("div", { class: "hint" });

  /** @param {"region" | "group"} role a landmark, if there is but one at a time */
  constructor(role = "group") {
    this.element = make("div", { class: "changes", role, "aria-label": "Changes" });
    this.show([]);
  }

  /**
   * @param {Change[]} changes
   * @param {boolean} [isKnown] whether these are all, for all that can be read
   */
  show(changes, isKnown = true) {
    const shown = new Map();
    for (const { key, note, before, after } of changes.slice(0, MOST)) {
      const section = this.#sections.get(key) ?? makeSection(key);
      setText(section.note, note && ` · ${note}`);
      section.view.show(before, after);
      shown.set(key, section);
    }
    const wanted = [...shown.values()].map(({ element }) => element);
    const words = noteOf(changes.length, isKnown);
    setText(this.#note, words);
    if (words) wanted.push(this.#note);
    const is = [...this.element.children];
    if (wanted.length !== is.length || wanted.some((one, at) => one !== is[at])) {
      this.element.replaceChildren(...wanted);
    }
    this.#sections = shown;
  }
}

/**
 * @param {JsonValue | undefined} was
 * @param {JsonValue | undefined} is
 */
function isSame(was, is) {
  if (was === is) return true;
  const isDeep = typeof was === "object" && typeof is === "object";
  return isDeep && toJson(was) === toJson(is);
}

/** @param {string} key */
function makeSection(key) {
  const heading = make("div", { class: "heading" });
  const note = make("span");
  addInOrder(heading, visibleLine(key));
  heading.append(note);
  const view = new HunksView(`Changes of ${key}`);
  return { note, view, element: make("div", {}, heading, view.element) };
}

/**
 * Say what is not shown.
 * @param {number} count of changes
 * @param {boolean} isKnown
 */
function noteOf(count, isKnown) {
  if (count > MOST) return `and ${countOf(count - MOST, "argument")} more`;
  if (!isKnown) return "What is marked cannot be read, so it is not compared.";
  return count ? "" : "None: it is what the model wrote.";
}

/**
 * @param {JsonValue | undefined} value
 * @param {boolean} isText
 */
function textOf(value, isText) {
  if (value === undefined) return "";
  return isText && typeof value === "string" ? value : toJson(value, 2);
}
