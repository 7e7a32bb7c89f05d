// The arguments of a call, while they are written: a tree that grows. Short values stand behind
// their names, long texts in blocks of their own, edits as diffs.
//
// To refresh is to compare what is shown with what is known, from the top, and to change what
// differs. It may stop when its time is over and go on in the next frame. What is settled and shown
// is not looked at again, so while it is written only the open values are; and it is right whatever
// happened in between, also if the final arguments are not what was streamed.

import { Chunks } from "./chunks.js";
import { make, setText } from "./dom.js";
import { Following } from "./following.js";
import { BlockItem, EditItem, heading, LineItem, textOf } from "./leaves.js";
import { Looks } from "./looks.js";
import { paint } from "./painting.js";
import { countOf } from "./words.js";

/** @import { Pass, TextView } from "./leaves.js" */
/** @import { Argument, Surroundings } from "./looks.js" */

const LONG = 100; // characters of a text, beyond which it is a block
const DEEPEST = 12; // levels that are indented
const LINE = 1.2; // lines that an item takes, about, with its distance from the next
const STRIDE = 256; // items that are only looked at, between two looks at the clock

/**
 * Shows one argument. `refresh` shows what it is by now, and says whether it came to the end of it.
 * @typedef {object} Item
 * @property {HTMLElement} element
 * @property {(argument: Argument, around: Surroundings, pass: Pass) => boolean} refresh
 */

/** @typedef {"line" | "block" | "branch" | "edit"} Shape */

/**
 * An item of a list, and of what it shows.
 * @typedef {object} Slot
 * @property {Shape} shape
 * @property {Argument} argument
 * @property {Item} item
 * @property {Surroundings | null} around if it shows something to the end: what was around that,
 * @property {unknown} value and what it was; who changes something within a settled value gives the
 *   value anew, and the list of children that it is in
 */

export class ArgumentsView {
  /**
   * @param {{ name: string, root: Argument, verdict: string | null, isLost?: boolean }} call
   * @param {() => void} [onPainted] called whenever all that is known has come to be shown
   */
  constructor(call, onPainted = () => {}) {
    this.call = call;
    this.element = make("div", {
      class: "arguments scroll",
      role: "group",
      "aria-label": "Arguments",
      tabindex: 0,
    });
    this.#onPainted = onPainted;
    this.#following = new Following(this.element);
    this.#looks = new Looks(call.name);
    this.refresh();
  }

  #onPainted;
  #following;
  #looks;
  #isFresh = true;
  #isTreePainted = false;
  /** @type {Omit<Slot, "around" | "value"> | null} */
  #root = null;
  /** @type {Set<TextView>} */
  #texts = new Set();
  /** @type {Set<TextView>} */
  #unpainted = new Set();
  #most = 0; // characters that there were to be painted

  /** Show what has changed, in the next frames. */
  refresh() {
    this.#isTreePainted = false;
    paint(this.#paint);
  }

  /** Whether all that is known is shown, to the last character. */
  get isPainted() {
    return this.#isTreePainted && this.#unpainted.size === 0;
  }

  /** How much of it is shown, from 0 to 1. */
  get progress() {
    if (this.isPainted) return 1;
    const item = this.#root?.item;
    const tree = this.#isTreePainted ? 1 : item instanceof BranchItem ? item.progress : 0;
    let left = 0;
    for (const view of this.#unpainted) left += view.left;
    this.#most = Math.max(this.#most, left);
    return tree * (this.#most ? 1 - left / this.#most : 1);
  }

  /** Whether there is more than is seen without scrolling. */
  get hasMore() {
    if (isOverfull(this.element)) return true;
    // What is beside it is out of sight only if the whole is overfull, so these are few.
    return [...this.#texts].some(({ element }) => isOverfull(element));
  }

  /** Go back to the beginning, also of each text, unless a reader has chosen a place there. */
  toStart() {
    this.#following.toStart();
    for (const view of this.#texts) view.toStart();
  }

  /** @param {() => boolean} hasTime */
  #paint = (hasTime) => {
    const { root, verdict, isLost } = this.call;
    const isWriting = verdict === null && !isLost;
    this.element.classList.toggle("writing", isWriting);
    if (this.#isFresh && !isWriting) this.#following.isFollowing = false;
    this.#isFresh = false;
    const around = { hasFile: false, language: null };
    let looks = 0;
    /** @type {Pass} */
    const pass = {
      looks: this.#looks,
      hasTime: () => looks++ === 0 || hasTime(), // however little there is, it gets on
      grown: this.#grown,
      painting: this.#painting,
    };
    const shape = shapeOf(root, around, pass);
    if (this.#root?.shape !== shape || this.#root.argument !== root) {
      this.#root = { shape, argument: root, item: makeItem(shape, 0) };
      this.element.replaceChildren(this.#root.item.element);
    }
    this.#isTreePainted = this.#root.item.refresh(root, around, pass);
    this.#told();
    return this.#isTreePainted;
  };

  #grown = () => this.#following.grown();

  /** @param {TextView} view */
  #painting = (view) => {
    this.#texts.add(view);
    if (!view.isPainted) this.#unpainted.add(view);
    else if (this.#unpainted.delete(view)) this.#told();
  };

  #told() {
    if (!this.isPainted) return;
    this.#most = 0;
    this.#onPainted();
  }
}

/** @param {Element} element */
function isOverfull({ scrollHeight, clientHeight }) {
  return scrollHeight > clientHeight + 1;
}

/**
 * @param {Argument} argument
 * @param {Surroundings} around
 * @param {Pass} pass
 * @returns {Shape}
 */
function shapeOf(argument, around, { looks }) {
  const { kind } = argument;
  if (kind === "object" || kind === "array") {
    return argument.isDone && argument.children.length === 0 ? "line" : "branch";
  }
  if (kind !== "string") return "line";
  const text = textOf(argument);
  const isLong = text.length > LONG || text.includes("\n");
  return isLong || looks.text(argument, around).isBlock ? "block" : "line";
}

/**
 * @param {Shape} shape
 * @param {number} depth
 * @returns {Item}
 */
function makeItem(shape, depth) {
  const item = shape === "branch" ? new BranchItem(depth) : new LEAVES[shape]();
  if (depth > 0) item.element.role = "listitem"; // around the root there is no list
  return item;
}

const LEAVES = { line: LineItem, block: BlockItem, edit: EditItem };

/** An object or an array: a list of items below its name. */
class BranchItem {
  /** @param {number} depth 0: the root, which has no name */
  constructor(depth) {
    this.depth = depth;
    this.element = make("div", { class: "item" });
    this.#list = make("div", { class: "list", role: "list" });
    this.#list.classList.toggle("indented", depth > 0 && depth <= DEEPEST);
    this.#chunks = new Chunks(this.#list, height);
  }

  #list;
  /** @type {Slot[]} */
  #slots = [];
  /** @type {Argument[]} */
  #children = [];
  /** @type {Surroundings | null} */
  #inner = null;
  #settled = 0; // children, from the first on, that are shown for good
  #chunks;
  #size = make("span", { class: "items" });

  /**
   * How much of it is shown, from 0 to 1.
   * @returns {number}
   */
  get progress() {
    const next = this.#slots[this.#settled]?.item;
    const part = next instanceof BranchItem ? next.progress : 0;
    return this.#children.length ? (this.#settled + part) / this.#children.length : 0;
  }

  /**
   * @param {Argument} argument
   * @param {Surroundings} around
   * @param {Pass} pass
   */
  refresh(argument, around, pass) {
    const { children } = argument;
    if (!this.#list.parentNode) {
      if (this.depth > 0) this.element.append(heading(argument.key ?? "", this.#size));
      this.element.append(this.#list);
    }
    if (argument.kind === "array") setText(this.#size, countOf(children.length, "item"));
    const edit = pass.looks.edit(argument);
    const inner = pass.looks.within(argument, around);
    const isAsBefore = children === this.#children && isAlike(inner, this.#inner);
    // An edit has few neighbours, and may turn out to be none.
    if (!isAsBefore || edit !== null) this.#settled = 0;
    this.#children = children;
    this.#inner = edit === null ? inner : null;
    let place = this.#settled;
    let isEditShown = false;
    for (let at = place; at < children.length; at += 1) {
      const child = /** @type {Argument} */ (children[at]);
      const isEdit = edit !== null && (child === edit.old || child === edit.new);
      if (isEdit && isEditShown) continue;
      isEditShown ||= isEdit;
      if (isEdit || !isSettled(this.#slots[place], child, inner)) {
        if (!this.#show(child, place, isEdit ? argument : null, inner, pass)) return false;
      } else if (at % STRIDE === 0 && !pass.hasTime()) return false;
      place += 1;
      if (edit === null && this.#settled === at && child.isDone) this.#settled = at + 1;
    }
    for (const { item } of this.#slots.splice(place)) item.element.remove();
    this.#list.classList.toggle("open", place === 0 && !argument.isDone);
    return true;
  }

  /**
   * Show a child at its place, as it is by now, and say whether that is all of it.
   * @param {Argument} child
   * @param {number} place
   * @param {Argument | null} edit the edit that it belongs to
   * @param {Surroundings} inner
   * @param {Pass} pass
   */
  #show(child, place, edit, inner, pass) {
    const shape = edit ? "edit" : shapeOf(child, inner, pass);
    let slot = this.#slots[place];
    if (slot === undefined || slot.argument !== child || slot.shape !== shape) {
      if (!pass.hasTime()) return false;
      const item = makeItem(shape, this.depth + 1);
      slot = { shape, argument: child, item, around: null, value: undefined };
      this.#put(slot, place);
      pass.grown();
    }
    slot.around = null;
    if (!slot.item.refresh(edit ?? child, inner, pass)) return false;
    if (!edit && child.isDone) {
      slot.around = inner;
      slot.value = child.value;
    }
    return true;
  }

  /**
   * Show an item at its place, instead of what was there.
   * @param {Slot} slot
   * @param {number} place
   */
  #put(slot, place) {
    const before = this.#slots[place];
    this.#slots[place] = slot;
    if (before !== undefined) {
      before.item.element.replaceWith(slot.item.element);
      return;
    }
    const { last, size } = this.#chunks;
    if (last.childElementCount >= size) this.#chunks.begin();
    this.#chunks.last.append(slot.item.element);
  }
}

/**
 * Guess how many lines on the screen the items of a chunk take, with those inside of them.
 * @param {Element} chunk
 */
function height(chunk) {
  return LINE * chunk.querySelectorAll(".item").length;
}

/**
 * Say whether a slot shows a child to its end, and nothing has happened since.
 * @param {Slot | undefined} slot
 * @param {Argument} child
 * @param {Surroundings} around
 */
function isSettled(slot, child, around) {
  if (slot?.argument !== child || !child.isDone || slot.value !== child.value) return false;
  return isAlike(around, slot.around);
}

/**
 * @param {Surroundings} one
 * @param {Surroundings | null} other
 */
function isAlike(one, other) {
  return one === other || (one.hasFile === other?.hasFile && one.language === other.language);
}
