// One field of the editor: a value of the arguments as text, and back. Strings are shown as all
// text of the model is, by `visible`, and read back by `original`: what nobody changed has each
// character that the model wrote. Everything else is JSON, in which large integers stay exact; a
// number says what the model's said, though maybe in another form, such as 5 for 5.0.

import { parseJson, toJson } from "../argstream.js";
import { addInOrder } from "./directions.js";
import { make, setText } from "./dom.js";
import { repeatedKey } from "./repeated-keys.js";
import { original, visible, visibleLine } from "./visible.js";

const MOST_ROWS = 16;
const COLUMNS = 72;
const LARGE = 50_000; // characters, beyond which lines are not wrapped: that costs at each key

/** @import { JsonValue } from "../argstream.js" */

/**
 * What a field says, unless there is a problem.
 * @typedef {{ value: JsonValue, problem: string }} Reading
 */

/** A text field with its label and what is wrong with it. */
export class Field {
  #initial;
  /** @type {string} */
  #shown;
  #isText;
  #wrong;
  /** @type {{ text: string, reading: Reading } | null} */
  #last = null;

  /**
   * @param {string} id in the shadow root; never the model's words
   * @param {string} key of the argument, which is also its label
   * @param {JsonValue} value
   * @param {{ isWhole?: boolean }} options whether it is all arguments: an object, as JSON
   */
  constructor(id, key, value, { isWhole = false } = {}) {
    this.#initial = value;
    this.#isText = typeof value === "string";
    this.#shown = visible(typeof value === "string" ? value : toJson(value, 2));
    this.isWhole = isWhole;
    this.key = key;
    this.input = make("textarea", {
      id, spellcheck: "false", autocomplete: "off", autocapitalize: "off",
      "aria-describedby": `${id}-wrong ${id}-hint`,
    });
    if (this.#shown.length > LARGE) this.input.wrap = "off";
    this.input.value = this.#shown;
    this.#wrong = make("div", { class: "wrong", id: `${id}-wrong` });
    const hint = make("div", { class: "hint", id: `${id}-hint` });
    if (this.#shown.includes("⟦")) {
      hint.textContent = "⟦…⟧ stands for one character that would not be seen";
    }
    const name = make("label", { for: id });
    addInOrder(name, visibleLine(key));
    this.element = make("div", { class: "field" }, name, this.input, this.#wrong, hint);
    this.fit();
  }

  /** Make it as high as its text, within reason. */
  fit() {
    const { value } = this.input;
    let rows = 0;
    for (let at = 0; at !== -1 && rows < MOST_ROWS; rows += 1) {
      const end = value.indexOf("\n", at);
      rows += Math.floor(((end < 0 ? value.length : end) - at) / COLUMNS);
      at = end < 0 ? -1 : end + 1;
    }
    rows = Math.min(rows, MOST_ROWS);
    if (this.input.rows !== rows) this.input.rows = rows;
  }

  /** What is in it now, and whether it can be read. */
  read() {
    const text = this.input.value;
    if (this.#last?.text !== text) this.#last = { text, reading: this.#parse(text) };
    return this.#last.reading;
  }

  /** Say at the field what is wrong with it. */
  complain() {
    const { problem } = this.read();
    setText(this.#wrong, problem);
    this.input.ariaInvalid = problem ? "true" : null;
  }

  /**
   * @param {string} text
   * @returns {Reading}
   */
  #parse(text) {
    if (text === this.#shown) return { value: this.#initial, problem: "" };
    if (this.#isText) return { value: original(text), problem: "" };
    const json = original(text);
    let value;
    try {
      value = parseJson(json);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      return { value: null, problem: `not valid JSON: ${visible(error.message)}` };
    }
    if (this.isWhole && (typeof value !== "object" || value === null || Array.isArray(value))) {
      return { value: null, problem: "arguments are an object: { … }" };
    }
    const repeated = repeatedKey(json);
    if (repeated !== null) {
      return { value: null, problem: `given twice: ${visibleLine(JSON.stringify(repeated))}` };
    }
    return { value, problem: "" };
  }
}
