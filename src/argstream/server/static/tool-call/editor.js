// The editor of the arguments of a call that asks: a field for each argument, or all of them as
// JSON, and beside that what differs from what the model wrote. Nothing is checked while a key is
// down: that waits for a pause, so typing stays smooth in 200 kB too. What counts is read anew at
// the moment of the decision.

import { button } from "./button.js";
import { ChangesView, changedArguments } from "./changes.js";
import { make } from "./dom.js";
import { Field } from "./field.js";
import { countOf } from "./words.js";

const PAUSE = 60;
const LONG_PAUSE = 250;
const LONG = 20_000;
const MOST_FIELDS = 100; // arguments, beyond which there is only the JSON of them all

/** @import { JsonObject } from "../argstream.js" */

/** The editor. */
export class Editor {
  #before;
  #onState;
  #fields = make("div", { class: "fields" });
  #changes = new ChangesView("region");
  #told = make("div", { class: "told", role: "status" });
  #asJson;
  /** @type {Field[]} */
  #list = [];
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #isHeld = false;

  /**
   * @param {JsonObject} before what the model wrote
   * @param {(words: string, canApprove: boolean) => void} onState told how it stands
   */
  constructor(before, onState) {
    this.#before = before;
    this.#onState = onState;
    this.#asJson = button("Edit as JSON", "plain", () => this.#switch());
    this.element = make(
      "div", { class: "editor", role: "group", "aria-label": "Edit the arguments" },
      this.#told, this.#fields, this.#asJson, this.#changes.element,
    );
    this.element.addEventListener("input", () => this.#typed());
    // Who goes to a button right after the last key must find it as it should be.
    this.element.addEventListener("focusout", () => this.#timer !== undefined && this.#check());
    this.#showFields(before);
    this.#check();
  }

  /** Whether anything in it differs from what it began with, be it valid or not. */
  get isChanged() {
    const edited = this.read();
    return !edited || changedArguments(this.#before, edited).length > 0;
  }

  /** Give the focus to the first field. */
  focus() {
    this.#list[0]?.input.focus();
  }

  /** Give the focus to what is wrong, if anything is. */
  focusProblem() {
    this.#check();
    this.#list.find((field) => field.read().problem)?.input.focus();
  }

  /**
   * What is in the fields, or null if it cannot be read.
   * @returns {JsonObject | null}
   */
  read() {
    const readings = this.#list.map((field) => field.read());
    if (readings.some(({ problem }) => problem)) return null;
    if (this.#isJson) return /** @type {JsonObject} */ (readings[0]?.value);
    // Not by assignment: a key may be "__proto__".
    return Object.fromEntries(this.#list.map((field) => [field.key, field.read().value]));
  }

  /**
   * Let nothing be typed while a decision is on its way.
   * @param {boolean} isHeld
   */
  hold(isHeld) {
    this.#isHeld = isHeld;
    for (const { input } of this.#list) input.readOnly = isHeld;
    this.#asJson.ariaDisabled = isHeld ? "true" : null;
    this.#check();
  }

  /**
   * Say that there is nothing to decide any more. What was typed can be read until it is dismissed.
   * @param {string} words
   * @param {() => void} dismiss
   */
  retire(words, dismiss) {
    this.hold(true);
    this.#onState = () => {};
    this.#asJson.remove();
    this.#told.replaceChildren(
      make("span", { text: `${words} What you typed was not sent.` }),
      button("Dismiss", "", dismiss),
    );
  }

  /** Stop what waits for a pause. */
  close() {
    clearTimeout(this.#timer);
  }

  get #isJson() {
    return this.#list.length === 1 && this.#list[0]?.isWhole === true;
  }

  /**
   * Show a field for each argument; JSON, if there is none, or if there are too many.
   * @param {JsonObject} values
   */
  #showFields(values) {
    const entries = Object.entries(values);
    if (entries.length === 0 || entries.length > MOST_FIELDS) {
      this.#showJson(values);
      return;
    }
    this.#list = entries.map(([key, value], at) => new Field(`field-${at}`, key, value));
    this.#show("Edit as JSON");
  }

  /** @param {JsonObject} values */
  #showJson(values) {
    this.#list = [new Field("field-0", "Arguments as JSON", values, { isWhole: true })];
    this.#show("Edit in fields");
  }

  /** @param {string} other */
  #show(other) {
    this.#fields.replaceChildren(...this.#list.map(({ element }) => element));
    this.#asJson.textContent = other;
  }

  /** Go from fields to JSON or back, with what is typed; not if it cannot be read. */
  #switch() {
    const values = this.read();
    if (!values) {
      this.focusProblem();
      return;
    }
    if (this.#isJson) this.#showFields(values);
    else this.#showJson(values);
    this.#check();
    this.focus();
  }

  #typed() {
    let size = 0;
    for (const { input } of this.#list) size += input.textLength;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#check(), size > LONG ? LONG_PAUSE : PAUSE);
  }

  #check() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const field of this.#list) {
      field.fit();
      field.complain();
    }
    const changed = changedArguments(this.#before, this.#readable());
    const isWrong = this.#list.some((field) => field.read().problem);
    this.#changes.show(changed, !isWrong);
    if (isWrong) {
      this.#onState("What is marked cannot be read.", false);
    } else if (changed.length) {
      this.#onState(`${countOf(changed.length, "argument")} changed`, !this.#isHeld);
    } else {
      this.#onState("Nothing is changed yet.", false);
    }
  }

  /**
   * What is in the fields, and where that cannot be read, what the model wrote.
   * @returns {JsonObject}
   */
  #readable() {
    const whole = this.read();
    if (whole) return whole;
    if (this.#isJson) return this.#before;
    return Object.fromEntries(this.#list.map((field) => {
      const { value, problem } = field.read();
      const was = Object.hasOwn(this.#before, field.key) ? this.#before[field.key] : null;
      return [field.key, problem ? was ?? null : value];
    }));
  }
}
