/**
 * The blocks of a run, in the order in which they began: words, thoughts and calls.
 *
 * It renders a `Run` of argstream.js and knows nothing of servers, so it shows live runs and
 * replays alike. What is shown is only added to: blocks stay where they are, calls that follow
 * each other stand in one row, and what a sub-agent says stands inside its call. It is done in
 * order and as long as there is time: what is left comes when it is asked for again.
 */

import "../../tool-call.js";
import { make } from "../../tool-call/dom.js";
import { isOver } from "../../tool-call/states.js";
import { Chunks, linesOf } from "./chunks.js";
import { ThinkingView } from "./thinking-view.js";
import { WordsView } from "./words-view.js";

/** @typedef {import("../../argstream.js").Run} Run */
/** @typedef {import("../../argstream.js").Block} Block */
/** @typedef {import("../../argstream.js").Call} Call */
/** @typedef {Extract<Block, { type: "text" | "thinking" }>} Words */
/** @typedef {import("../../tool-call.js").ToolCallElement} ToolCallElement */
/** @typedef {import("../../tool-call.js").DecisionEvent} DecisionEvent */
/** @typedef {(decisions: DecisionEvent["decisions"]) => Promise<unknown>} Decide */

const LOST = "This was cut off, and began again.";
/** Characters of arguments that need more than half of the width. */
const LONG = 80;
/** Calls that stand in one row, at most. */
const ROW = 50;
/** Lines that a call takes, about. */
const CLOSED = 1;
const OPEN = 8;
const always = () => true;

/**
 * How one block is shown.
 *
 * @typedef {object} BlockView
 * @property {HTMLElement} element
 * @property {(block: Block) => boolean} fits whether it is the one that is shown, or its beginning
 * @property {(block: Block, hasTime: () => boolean) => boolean} show what changed of it; false if
 *   there is more
 */

export class RunView {
  /** @param {{ decide?: Decide, decidable?: boolean }} options */
  constructor({ decide, decidable = decide !== undefined } = {}) {
    this.element = make("div", { class: "blocks" });
    this.#decide = decide;
    this.#decidable = decidable;
  }

  #decide;
  #decidable;
  /** @type {Map<number, BlockView>} */
  #views = new Map();
  /** By the ids of the calls: the newest of each. */
  /** @type {Map<string, ToolCallElement>} */
  #calls = new Map();
  /** The chunks of what holds blocks: this element, and calls. */
  /** @type {Map<HTMLElement, Chunks>} */
  #chunks = new Map();
  /** How many blocks there are in the page. */
  #count = 0;
  /** How many blocks there were at first: calls of these that are over are closed. */
  #first = 0;
  /** Blocks in the page that have changed. */
  /** @type {Set<Block>} */
  #changed = new Set();

  /**
   * Show all of a run, whatever was shown before.
   *
   * @param {Run} run
   * @param {() => boolean} [hasTime]
   * @returns {boolean} whether all is shown
   */
  show(run, hasTime = always) {
    const shown = run.blocks.slice(0, this.#count);
    if (shown.length < this.#count || !shown.every((block) => this.#fits(block))) this.#clear();
    else this.#changed = new Set(shown);
    this.#first = run.blocks.length;
    return this.#work(run, hasTime);
  }

  /**
   * Show what has changed.
   *
   * @param {Run} run
   * @param {Iterable<Block>} blocks
   * @param {() => boolean} [hasTime]
   * @returns {boolean} whether all is shown
   */
  update(run, blocks, hasTime = always) {
    for (const block of blocks) {
      if (!this.#fits(block)) return this.show(run, hasTime);
      if (this.#views.has(block.key)) this.#changed.add(block);
    }
    return this.#work(run, hasTime);
  }

  /** The calls that wait for a decision, as they stand in the page. */
  get asking() {
    return [...this.element.querySelectorAll('tool-call[state="pending"]')];
  }

  #clear() {
    this.element.replaceChildren();
    this.#views.clear();
    this.#calls.clear();
    this.#chunks.clear();
    this.#changed.clear();
    this.#count = 0;
  }

  /** @param {Block} block */
  #fits(block) {
    const view = this.#views.get(block.key);
    return view === undefined || view.fits(block);
  }

  /**
   * @param {Run} run
   * @param {() => boolean} hasTime
   */
  #work(run, hasTime) {
    for (const block of this.#changed) {
      if (this.#views.get(block.key)?.show(block, hasTime) === false) return false;
      this.#changed.delete(block);
      if (!hasTime()) break;
    }
    if (this.#changed.size > 0) return false;
    while (this.#count < run.blocks.length) {
      const block = /** @type {Block} */ (run.blocks[this.#count]);
      if (!this.#add(block).show(block, hasTime)) {
        this.#changed.add(block);
        return false;
      }
      if (!hasTime()) break;
    }
    return this.#count === run.blocks.length;
  }

  /** @param {Block} block */
  #add(block) {
    const isOpen = block.type === "call" && !(this.#count < this.#first && isOver(block.state));
    const view = this.#viewOf(block, isOpen);
    const container = this.#containerOf(block);
    const chunks = this.#chunks.get(container) ?? new Chunks(container);
    this.#chunks.set(container, chunks);
    if (block.type === "call") {
      placeCall(chunks, view.element);
      chunks.weigh(isOpen ? OPEN : CLOSED);
    } else {
      chunks.append(view.element);
      chunks.weigh(block.type === "text" ? linesOf(block.text) : 1);
    }
    this.#views.set(block.key, view);
    this.#count += 1;
    return view;
  }

  /**
   * What a sub-agent says goes into the slot of its call.
   *
   * @param {Block} block
   * @returns {HTMLElement}
   */
  #containerOf(block) {
    const call = block.parentId === null ? undefined : this.#calls.get(block.parentId);
    if (call === undefined) return this.element;
    if (call.firstElementChild === null) {
      call.append(make("div", { class: "inside" }));
      lengthen(call);
    }
    return /** @type {HTMLElement} */ (call.firstElementChild);
  }

  /**
   * @param {Block} block
   * @param {boolean} isOpen
   * @returns {BlockView}
   */
  #viewOf(block, isOpen) {
    if (block.type === "call") return this.#callView(block, isOpen);
    return block.type === "text" ? textView() : thinkingView();
  }

  /**
   * @param {Call} call
   * @param {boolean} isOpen
   * @returns {BlockView}
   */
  #callView(call, isOpen) {
    const element = /** @type {ToolCallElement} */ (document.createElement("tool-call"));
    element.decidable = this.#decidable;
    element.open = isOpen;
    element.call = call;
    element.addEventListener("decision", (event) => {
      if (this.#decide === undefined) return;
      const asked = /** @type {DecisionEvent} */ (event);
      asked.respondWith(this.#decide(asked.decisions));
    });
    this.#calls.set(call.callId, element);
    let shown = call;
    return {
      element,
      fits: (block) => block.type === "call" && block.callId === shown.callId,
      show: (block) => {
        if (block.type === "call" && block !== shown) element.call = shown = block;
        else element.refresh();
        if (shown.raw.length > LONG) lengthen(element);
        return true;
      },
    };
  }
}

/**
 * Put a call behind all else; calls that follow each other come into one row, until one of them has
 * all of its width.
 *
 * @param {Chunks} chunks
 * @param {HTMLElement} element
 */
function placeCall(chunks, element) {
  let row = chunks.last.lastElementChild;
  const isRow = row !== null && row.classList.contains("calls") && row.childElementCount < ROW;
  if (row === null || !isRow || row.querySelector(":scope > .is-long[open]") !== null) {
    row = make("div", { class: "calls" });
    chunks.append(row);
  }
  row.append(element);
}

/**
 * Give a call the whole width, unless it would push aside what stands beside it.
 *
 * @param {HTMLElement} element
 */
function lengthen(element) {
  const isAlone = element.parentElement?.childElementCount === 1;
  if (isAlone || !element.hasAttribute("open")) element.classList.add("is-long");
}

/** @returns {BlockView} */
function textView() {
  const words = new WordsView();
  const element = make("div", { class: "text" }, words.element);
  /** @type {Words | null} */
  let shown = null;
  return {
    element,
    fits: (block) => block.type === "text" && goesOn(block, shown),
    show: (block, hasTime) => {
      if (block.type !== "text") return true;
      shown = block;
      if (!words.grow(block.text, hasTime)) return false;
      if (block.isLost) lose(element);
      return true;
    },
  };
}

/** @returns {BlockView} */
function thinkingView() {
  const view = new ThinkingView();
  /** @type {Words | null} */
  let shown = null;
  return {
    element: view.element,
    fits: (block) => block.type === "thinking" && goesOn(block, shown),
    show: (block) => {
      if (block.type !== "thinking") return true;
      shown = block;
      view.show(block.text, block.isOver || block.isLost);
      if (block.isLost) lose(view.element);
      return true;
    },
  };
}

/**
 * Say whether what is shown is the beginning of a block: of another run, it may be a longer one.
 *
 * @param {Words} block
 * @param {Words | null} shown
 */
function goesOn(block, shown) {
  if (shown === null || shown === block) return true;
  return shown.type === block.type && block.text.startsWith(shown.text);
}

/** @param {HTMLElement} element */
function lose(element) {
  if (element.classList.contains("is-lost")) return;
  element.classList.add("is-lost");
  element.append(make("p", { class: "lost-note", text: LOST }));
}
