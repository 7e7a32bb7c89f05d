// Single arguments: a short value behind its name, a long text below it, and an edit, which is two
// texts as one diff.

import { CodeView } from "./code.js";
import { DiffView } from "./diff.js";
import { addInOrder } from "./directions.js";
import { make } from "./dom.js";
import { visible, visibleLine } from "./visible.js";

/** @import { Looks, Argument, Surroundings } from "./looks.js" */

/** @typedef {CodeView | DiffView} TextView */

/**
 * What a refresh goes by.
 * @typedef {object} Pass
 * @property {Looks} looks
 * @property {() => boolean} hasTime
 * @property {() => void} grown called if something was added
 * @property {(view: TextView) => void} painting called if a text begins to be painted, and when it
 *   is there
 */

/** A name and a short value. There may be very many, so each is made with as little as it can. */
export class LineItem {
  element = document.createElement("div");
  #value = document.createElement("span");
  /** @type {string | null} */
  #shown = null;
  /** @type {unknown} */
  #known;
  #isDone = false;

  /** @param {Argument} argument */
  refresh(argument) {
    const { key, kind, isDone } = argument;
    const known = kind === "string" ? textOf(argument) : argument.value;
    const isNew = this.#shown === null;
    if (!isNew && this.#known === known && this.#isDone === isDone) return true;
    if (isNew) {
      this.element.className = "item line";
      if (key !== null) this.element.append(nameElement(key), " ");
      this.element.append(this.#value);
    }
    const text = kind === "string" ? String(known) : isDone ? scalar(argument) : "";
    if (text !== this.#shown) {
      this.#value.textContent = "";
      addInOrder(this.#value, visible(text));
    }
    this.#value.className = `value ${kind ?? ""} ${isDone ? "" : "open"}`.trim();
    this.#shown = text;
    this.#known = known;
    this.#isDone = isDone;
    return true;
  }
}

/** A long text, below its name. */
export class BlockItem {
  element = make("div", { class: "item block" });
  /** @type {CodeView | null} */
  #view = null;

  /**
   * @param {Argument} argument
   * @param {Surroundings} around
   * @param {Pass} pass
   */
  refresh(argument, around, pass) {
    const { isNumbered, language } = pass.looks.text(argument, around);
    if (this.#view === null) {
      const label = argument.key === null ? "Text" : nameOf(argument.key);
      this.#view = new CodeView({ label, language, isNumbered, onPainting: pass.painting });
      if (argument.key !== null) this.element.append(heading(argument.key));
      this.element.append(this.#view.element);
    }
    const text = textOf(argument);
    if (text !== this.#view.text) pass.grown();
    this.#view.show(text, { isDone: argument.isDone, language });
    return true;
  }
}

/** An edit: two arguments as one diff. */
export class EditItem {
  element = make("div", { class: "item block" });
  #heading = make("div", { class: "key" });
  #name = "";
  /** @type {DiffView | null} */
  #view = null;
  #shown = 0;

  /**
   * @param {Argument} object
   * @param {Surroundings} around
   * @param {Pass} pass
   */
  refresh(object, { language }, pass) {
    const edit = pass.looks.edit(object);
    if (edit === null) return true; // its parent shows it in another way
    const { old, new: after } = edit;
    if (this.#view === null) {
      const label = nameOf(old.key ?? "");
      this.#view = new DiffView({ label, language, onPainting: pass.painting });
      this.element.append(this.#heading, this.#view.element);
    }
    const names = [old, ...(after ? [after] : [])].map(({ key }) => nameOf(key ?? ""));
    const name = names.join(" → ");
    if (name !== this.#name) {
      this.#name = name;
      this.#heading.textContent = visibleLine(name); // of names that are known, all from the left
      this.#view.label = name;
    }
    const [before, then] = [textOf(old), after ? textOf(after) : ""];
    if (before.length + then.length !== this.#shown) pass.grown();
    this.#shown = before.length + then.length;
    this.#view.show({
      before,
      after: then,
      isBeforeDone: old.isDone,
      isAfterDone: after?.isDone ?? false,
      language,
    });
    return true;
  }
}

/**
 * Make the name above an argument.
 * @param {string | number} key
 * @param {Node[]} more
 */
export function heading(key, ...more) {
  const element = make("div", { class: "key" });
  addInOrder(element, visibleLine(nameOf(key)));
  element.append(...more);
  return element;
}

/**
 * Give a text as it is by now, or as it is for good.
 * @param {Argument} argument
 */
export function textOf({ text, value, isDone }) {
  return isDone && typeof value === "string" ? value : text;
}

/** @param {string | number} key */
function nameElement(key) {
  const element = document.createElement("span");
  element.className = "key";
  addInOrder(element, visibleLine(nameOf(key)));
  return element;
}

/** @param {string | number} key */
function nameOf(key) {
  return key === "" ? "(empty name)" : String(key);
}

/** @param {Argument} argument */
function scalar({ kind, value, key }) {
  if (kind === "array") return "[]";
  if (kind === "object") return key === null ? "no arguments" : "{}";
  return Object.is(value, -0) ? "-0" : String(value);
}
