/**
 * What the model says, shown piece by piece: only ever appended to, and only text nodes.
 *
 * Of Markdown, fences are heeded (lines of three backticks), for code must keep its shape; all else
 * stays as it was written. A line that may become a fence is shown as it is until that is certain.
 * Long texts are cut into blocks, most often at the ends of lines, so that a browser lays out the
 * last one anew and not all: the work for a piece does not depend on what stands before it. And it
 * is done as long as there is time: what is left comes when it is asked for again.
 */

import { make } from "../../tool-call/dom.js";
import { visible } from "../../tool-call/visible.js";
import { Chunks, linesOf } from "./chunks.js";

/** Characters of a block from which it ends with a line, */
const CUT = 2000;
/** with a word, */
const LONG = 7800;
/** or wherever. */
const LONGEST = 8000;
/** Characters that are looked at in one go. */
const PIECE = 4000;
/** A line that is longer is no fence, whatever it begins with. */
const LONGEST_FENCE = 200;
/** Characters of a line of code that fit everywhere. */
const NARROW = 30;
/** Code in one text that is shown as such: more of it is a burden, and nothing to read. */
const MOST_FENCES = 2000;
const MAYBE_FENCE = /^ {0,3}(?:`{0,2}|`{3,}[^`]*)$/;
const FENCE = /^ {0,3}(`{3,})([^`]*)$/;

/** A text in blocks of a bounded length. */
class GrowingText {
  /**
   * @param {"p" | "span"} tag of the blocks
   * @param {Chunks} chunks
   */
  constructor(tag, chunks) {
    this.#tag = tag;
    this.chunks = chunks;
  }

  #tag;
  /** @type {Text | null} */
  #tail = null;
  /** Characters of the last block, as they were written. */
  #length = 0;
  #isFull = false;

  /** @param {string} text at most one line */
  append(text) {
    for (let start = 0; start < text.length; ) {
      if (this.#isFull) this.#begin(true);
      else if (this.#tail === null) this.#begin(false);
      const end = this.#endOf(text, start);
      this.#tail?.appendData(visible(text.slice(start, end)));
      this.#length += end - start;
      start = end;
    }
  }

  /** Begin another block with what comes. */
  end() {
    this.#tail = null;
    this.#isFull = false;
  }

  get isEmpty() {
    return this.#tail === null;
  }

  /** @param {boolean} isContinued whether it is the same paragraph to a reader */
  #begin(isContinued) {
    this.#tail = document.createTextNode("");
    this.#length = 0;
    this.#isFull = false;
    const block = make(this.#tag, this.#tag === "p" ? { dir: "auto" } : {}, this.#tail);
    if (isContinued) block.classList.add("continued");
    this.chunks.append(block);
  }

  /**
   * Find how far a text goes into the last block: the same, in whatever pieces it comes.
   *
   * @param {string} text
   * @param {number} start
   */
  #endOf(text, start) {
    const most = text.slice(start, start + LONGEST - this.#length);
    const space = most.indexOf(" ", Math.max(0, LONG - 1 - this.#length));
    const length = space < 0 ? most.length : space + 1;
    const isLineOver = most.endsWith("\n") && this.#length + length >= CUT;
    this.#isFull = isLineOver || space >= 0 || this.#length + length >= LONGEST;
    return wholeAt(text, start + length);
  }
}

export class WordsView {
  constructor() {
    this.element = make("div", { class: "words" });
    this.#chunks = new Chunks(this.element);
    this.#text = new GrowingText("p", this.#chunks);
  }

  /** How many characters are shown. */
  length = 0;

  #chunks;
  #text;
  /** @type {GrowingText | null} */
  #code = null;
  #pre = make("pre");
  /** Where its line is. */
  #column = 0;
  #fences = 0;
  /** How many backticks end the code. */
  #fence = 3;
  /** The line so far, as long as it may be a fence; null in the midst of another one. */
  /** @type {string | null} */
  #held = "";
  /** Whether an empty line changes nothing here: at the beginning, and below code. */
  #isApart = true;
  #heldElement = make("span", { class: "held" });

  /**
   * Show a text as far as it has come; what is shown already must be its beginning.
   *
   * @param {string} text
   * @param {() => boolean} [hasTime]
   * @returns {boolean} whether all of it is shown
   */
  grow(text, hasTime = () => true) {
    if (text.length === this.length) return true;
    do {
      const piece = text.slice(this.length, wholeAt(text, this.length + PIECE));
      const newline = piece.indexOf("\n");
      const line = newline < 0 ? piece : piece.slice(0, newline);
      this.#take(line, newline >= 0);
      this.length += newline < 0 ? piece.length : newline + 1;
    } while (this.length < text.length && hasTime());
    this.#showHeld();
    return this.length === text.length;
  }

  /**
   * @param {string} text
   * @param {boolean} isLineOver
   */
  #take(text, isLineOver) {
    if (this.#held !== null) {
      const line = this.#held + text;
      if (this.#mayBeFence(line)) {
        this.#held = line;
        if (isLineOver) this.#endLine(line);
        return;
      }
      this.#held = null;
      this.#write(line);
    } else {
      this.#write(text);
    }
    if (isLineOver) {
      this.#write("\n");
      this.#held = "";
    }
  }

  /** @param {string} line as far as it has come */
  #mayBeFence(line) {
    if (line.length > LONGEST_FENCE) return false;
    return this.#fences < MOST_FENCES || this.#code !== null
      ? MAYBE_FENCE.test(line)
      : line === ""; // which ends a paragraph
  }

  /** @param {string} line that looked like a fence until its end */
  #endLine(line) {
    this.#held = "";
    const [, ticks = "", about = ""] = FENCE.exec(line) ?? [];
    if (line === "" && this.#code === null) {
      this.#endParagraph();
    } else if (ticks === "") {
      this.#write(`${line}\n`);
    } else if (this.#code === null) {
      this.#fences += 1;
      this.#fence = ticks.length;
      this.#beginCode(about.trim());
    } else if (ticks.length >= this.#fence && about.trim() === "") {
      this.#code = null;
      this.#isApart = true;
    } else {
      this.#write(`${line}\n`);
    }
  }

  /** Take an empty line: the first one is the space between paragraphs, further ones are shown. */
  #endParagraph() {
    if (this.#text.isEmpty && !this.#isApart) this.#write("\n");
    this.#text.end();
    this.#isApart = false;
  }

  /** @param {string} about the words behind the backticks: most often a language */
  #beginCode(about) {
    this.#text.end();
    const code = make("code");
    const copy = make("button", { class: "quiet small", type: "button", text: "Copy" });
    copy.addEventListener("click", () => copyText(code, copy));
    const name = make("span", { class: "fenced-name", text: about });
    const head = make("div", { class: "fenced-head" }, name, copy);
    const pre = make("pre", { role: "group", "aria-label": "Code" }, code);
    this.#chunks.append(make("div", { class: "fenced" }, head, pre));
    this.#chunks.weigh(3);
    this.#code = new GrowingText("span", new Chunks(code, "span"));
    this.#pre = pre;
    this.#column = 0;
  }

  /** @param {string} text at most one line */
  #write(text) {
    if (text === "") return;
    const lines = text.endsWith("\n") ? 1 : linesOf(text) - 1;
    (this.#code ?? this.#text).append(text);
    this.#chunks.weigh(lines);
    if (this.#code === null) return;
    this.#code.chunks.weigh(lines);
    this.#column = text.endsWith("\n") ? 0 : this.#column + text.length;
    if (this.#column > NARROW) widen(this.#pre);
  }

  /** Show the line that may be a fence behind all else: nothing that was written is kept back. */
  #showHeld() {
    const held = this.#heldElement;
    held.textContent = visible(this.#held ?? "");
    if (held.textContent === "") held.remove();
    else (this.#code ?? this.#text).chunks.last.append(held);
  }
}

/**
 * Give a place near this one that does not cut a character in two.
 *
 * @param {string} text
 * @param {number} place
 */
function wholeAt(text, place) {
  const before = text.charCodeAt(place - 1);
  return before >= 0xd800 && before < 0xdc00 ? place + 1 : place;
}

/**
 * Let code scroll sideways: then it must be reachable by keyboard. What need not is cheaper.
 *
 * @param {HTMLElement} pre
 */
function widen(pre) {
  if (pre.tabIndex === 0) return;
  pre.tabIndex = 0;
  pre.classList.add("is-wide");
}

/**
 * @param {HTMLElement} from
 * @param {HTMLElement} button
 */
async function copyText(from, button) {
  let words = "Copied";
  try {
    await navigator.clipboard.writeText(from.textContent ?? "");
  } catch {
    words = "Not allowed"; // by the browser, or by the one who was asked
  }
  button.textContent = words;
  setTimeout(() => {
    button.textContent = "Copy";
  }, 1500);
}
