// What became of a call, in the strip of its card: one line of it, and the rest on request. What
// can be large is looked at once, and shown only if somebody asks for it.

import { toJson } from "../argstream.js";
import { button } from "./button.js";
import { ChangesView, changedArguments } from "./changes.js";
import { CodeView } from "./code.js";
import { make, setText } from "./dom.js";
import { stateWords } from "./states.js";
import { visibleLine } from "./visible.js";
import { pathWords } from "./words.js";

/** @import { Call } from "../argstream.js" */

/** @typedef {"changes" | "output" | "result"} Part */
/** @typedef {{ element: HTMLElement, refresh: () => void }} Panel */

const LONGEST = 300; // characters of the one line; the layout cuts it where it must

/** The strip of a call that does not ask, and what opens below it. */
export class Outcome {
  #call;
  #said = make("div", { class: "said one" });
  #buttons = make("div", { class: "buttons" });
  /** @type {Map<Part, HTMLButtonElement>} */
  #toggles = new Map();
  /** @type {Part | null} */
  #shown = null;
  /** @type {Panel | null} */
  #panel = null;
  /** @type {{ of: unknown, text: string, line: string } | null} */
  #cached = null;

  /** @param {Call} call */
  constructor(call) {
    this.#call = call;
    for (const part of /** @type {Part[]} */ (["changes", "output", "result"])) {
      const toggle = button("", "plain", () => this.#show(this.#shown === part ? null : part));
      this.#toggles.set(part, toggle);
      this.#buttons.append(toggle);
    }
    this.element = make("div", { class: "strip" }, this.#said, this.#buttons);
    this.panel = make("div", { class: "panel" });
    this.refresh();
  }

  /** Show the call as it is now. */
  refresh() {
    const { word, text, isCode } = this.#words();
    const line = visibleLine(text);
    const key = `${word}\n${line}`;
    if (this.#said.dataset.key !== key) {
      this.#said.dataset.key = key;
      // What somebody wrote for people is shown whole; what a tool wrote has its own place.
      this.#said.classList.toggle("one", isCode);
      this.#said.replaceChildren(
        ...(word ? [make("b", { text: word })] : []),
        ...(word && line ? [isCode ? " " : ": "] : []),
        line && isCode ? code(line) : line,
      );
    }
    for (const [part, toggle] of this.#toggles) {
      toggle.hidden = !this.#has(part);
      const name = part === "result" && this.#call.state === "failed" ? "error" : part;
      setText(toggle, `${this.#shown === part ? "Hide" : "Show"} ${name}`);
    }
    if (this.#shown && !this.#has(this.#shown)) this.#show(null);
    this.#panel?.refresh();
  }

  /** @returns {{ word: string, text: string, isCode: boolean }} */
  #words() {
    const call = this.#call;
    const word = stateWords(call);
    switch (call.state) {
      case "writing":
        return { word: "", text: "", isCode: false };
      case "written":
        return { word: "", text: "Whole, and not begun.", isCode: false };
      case "pending":
        return { word: "asks", text: call.request?.reason ?? "", isCode: false };
      case "approved":
        return { word: this.#approvedWords, text: call.decision?.reason ?? "", isCode: false };
      case "running":
        return { word: "running…", text: lastLine(call.output), isCode: true };
      case "completed":
        if (call.result === null) return { word: "done", text: "", isCode: false };
        return { word: "", text: this.#result.line, isCode: true };
      case "failed":
        return { word, text: this.#result.line, isCode: false };
      case "denied":
        return { word, text: call.decision?.reason ?? "", isCode: false };
      case "invalid":
        return { word, text: errorWords(call), isCode: false };
      case "lost":
        return { word: "", text: "The turn was cut off and began again.", isCode: false };
      default:
        return { word, text: "", isCode: false };
    }
  }

  get #approvedWords() {
    return this.#call.decision?.decision === "edited" ? "approved with changes" : "approved";
  }

  /** The result as text and in one line, made once. */
  get #result() {
    const { result } = this.#call;
    if (!this.#cached || this.#cached.of !== result) {
      const isText = typeof result === "string";
      const text = isText ? result : toJson(result, 2);
      const line = firstLine(isText ? result : toJson(result));
      this.#cached = { of: result, text, line };
    }
    return this.#cached;
  }

  /**
   * Whether there is something to open.
   * @param {Part} part
   */
  #has(part) {
    const { state, output, result, request, decision } = this.#call;
    if (part === "output") return output !== "";
    if (part === "changes") return Boolean(request && decision?.edited_arguments);
    if (state === "completed") return result !== null;
    // What failed says why in the strip, in most cases all of it.
    return state === "failed" && this.#result.text.trim() !== this.#result.line;
  }

  /** @param {Part | null} part */
  #show(part) {
    this.#shown = part;
    this.#panel = part === null ? null : this.#makePanel(part);
    this.panel.replaceChildren(...(this.#panel ? [this.#panel.element] : []));
    this.refresh();
  }

  /**
   * @param {Part} part
   * @returns {Panel}
   */
  #makePanel(part) {
    const call = this.#call;
    if (part === "changes") {
      const view = new ChangesView();
      const { request, decision } = call;
      view.show(changedArguments(request?.arguments ?? {}, decision?.edited_arguments ?? {}));
      return { element: view.element, refresh() {} };
    }
    const isOutput = part === "output";
    const language = !isOutput && typeof call.result !== "string" ? "json" : null;
    const view = new CodeView({ label: isOutput ? "Output" : "Result", language });
    return {
      element: view.element,
      refresh: () => view.show(
        isOutput ? call.output : this.#result.text,
        { isDone: !isOutput || call.outcome !== null },
      ),
    };
  }
}

/** @param {string} text that is visible */
function code(text) {
  const element = document.createElement("code");
  element.append(text);
  return element;
}

/**
 * The first line in which something stands.
 * @param {string} text
 */
function firstLine(text) {
  const start = Math.max(0, text.search(/\S/u));
  const end = text.indexOf("\n", start);
  return text.slice(start, Math.min(end < 0 ? text.length : end, start + LONGEST));
}

/**
 * The last line in which something stands, without looking at those before it.
 * @param {string} text
 */
function lastLine(text) {
  const end = text.slice(-4 * LONGEST).trimEnd();
  return end.slice(end.lastIndexOf("\n") + 1).slice(0, LONGEST);
}

/**
 * Why the arguments are not valid, and where.
 * @param {Call} call
 */
function errorWords({ error }) {
  if (!error) return "";
  const where = pathWords(error.path ?? []);
  return where && !error.message.includes(where) ? `${error.message} (at ${where})` : error.message;
}
