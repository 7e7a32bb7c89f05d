import { fillRow, highlighterFor, languageNamed, makeRow, RowList } from "./code.js";
import { BlockChunks, copyAsText, copyText, linesOf, make, visible } from "./dom.js";

// Markdown while the model writes it: CommonMark with GFM tables, task lists and strikethrough,
// straight to DOM nodes.
//
// - A complete line is parsed once. The line that is still open is parsed as if it were complete,
//   and its effects are undone before more of it is parsed. So the page always shows the rendering
//   of the text so far, and a delta costs the same however long the text is.
// - Everything is bounded. A very long line or paragraph is continued in a further paragraph, a
//   long list, quote or table in a further one, and nesting has a limit.
// - Differences from CommonMark, all deliberate: raw HTML is text; images are links; links need an
//   absolute http, https or mailto address, and reference definitions are text; link titles are
//   dropped, because the tooltip is the true address; only common named entities are decoded.

const LONGEST = 4000; // characters of a line, and of a paragraph
const TALL = 150; // lines of a list, a quote or a table
const DEEPEST = 24; // open blocks, nested elements of a line, and open brackets
const WIDEST = 100; // columns of a table
const NARROW = 30; // characters of a line of code that fit on every screen

/**
 * An open block. `element` is where its content goes.
 * @typedef {Quote | List | Item | Paragraph | Code | Table} Block
 * @typedef {{ kind: "quote", element: HTMLElement }} Quote
 * @typedef {{ kind: "list", element: HTMLElement, marker: string, next: number }} List of the next
 *   number, with a bullet or what follows the number as its marker
 * @typedef {{ kind: "item", element: HTMLElement, indent: number, isEmpty: boolean }} Item
 * @typedef {{ kind: "paragraph", element: HTMLElement, text: string, isFirstInItem: boolean,
 *   isShown: boolean }} Paragraph
 * @typedef {{ kind: "code", element: HTMLElement, fence: string, indent: number, blanks: string,
 *   number: number, rows: RowList, highlighter: ReturnType<typeof highlighterFor> }} Code without a
 *   fence if it is indented; then blank lines wait for further code
 * @typedef {{ kind: "table", element: HTMLElement, header: string[], marks: string[] }} Table
 */

/** A text in Markdown that grows. */
export class MarkdownView {
  element = make("div", { class: "markdown" });
  #chunks = new BlockChunks(this.element);
  /** Characters that are parsed for good, and characters that are shown. */
  #at = 0;
  #shown = 0;
  /** The blocks that the next line may continue, from the outermost one. */
  /** @type {Block[]} */ #open = [];
  /** Whether the next text continues a line that was too long. */
  #isInLine = false;
  /** Whether the last line was blank, so that a list becomes loose if it is continued. */
  #isAfterBlank = false;
  /** Lines of the open top-level block. */
  #height = 0;
  /** Undoes the effects of the open line; null while a complete line is parsed. */
  /** @type {(() => void)[] | null} */ #undo = null;

  /** Show a text as far as it has come. It must start with what is shown already.
   * @param {string} text @param {() => boolean} [hasTime]
   * @returns {boolean} whether all of it is shown */
  grow(text, hasTime = () => true) {
    if (text.length === this.#shown) return true;
    for (const undo of this.#undo?.reverse() ?? []) undo();
    this.#undo = null;
    let piece = pieceAt(text, this.#at);
    do {
      if (piece === null) break;
      this.#read(piece.text, piece.endsLine);
      this.#height += linesOf(piece.text) || 1;
      this.#chunks.weigh(linesOf(piece.text));
      this.#at += piece.length;
      piece = pieceAt(text, this.#at);
    } while (hasTime());
    const isComplete = piece === null;
    if (isComplete && this.#at < text.length) this.#tryLine(text.slice(this.#at));
    this.#render();
    this.#shown = isComplete ? text.length : this.#at;
    return isComplete;
  }

  /** @param {string} text of the open line so far */
  #tryLine(text) {
    const blocks = this.#open.map((block) => ({ block, before: { ...block } }));
    const [isInLine, isAfterBlank, height] = [this.#isInLine, this.#isAfterBlank, this.#height];
    this.#undo = [() => {
      this.#open = blocks.map(({ block, before }) => Object.assign(block, before));
      const last = this.#open.at(-1);
      if (last?.kind === "paragraph") last.isShown = false;
      [this.#isInLine, this.#isAfterBlank, this.#height] = [isInLine, isAfterBlank, height];
    }];
    this.#read(text, false);
  }

  // Lines

  /** @param {string} text @param {boolean} endsLine */
  #read(text, endsLine) {
    const line = new Line(text.endsWith("\r") ? text.slice(0, -1) : text, endsLine);
    const { length } = this.#open;
    let depth = 0;
    if (this.#isInLine) { // that was too long: go on with its code, or in a further paragraph
      const last = this.#open.at(-1);
      const isLeaf = last?.kind === "paragraph" || last?.kind === "table";
      if (last?.kind === "code") this.#addRow(last, text, endsLine, true);
      else this.#startParagraph(length - (isLeaf ? 1 : 0), text, true);
    } else {
      while (depth < length && this.#goesOn(this.#open[depth], line)) depth += 1;
      const leaf = this.#open[depth - 1];
      if (leaf?.kind === "code") this.#readCode(leaf, line);
      else this.#readBlocks(depth, line);
    }
    this.#isInLine = !endsLine;
  }

  /** Return whether a line continues an open block, and consume the block's prefix.
   * @param {Block | undefined} block @param {Line} line */
  #goesOn(block, line) {
    switch (block?.kind) {
      case "quote": return line.indent < 4 && line.takeQuoteMark();
      case "list": return true;
      case "item":
        if (line.isBlank ? block.isEmpty : line.indent < block.indent) return false;
        line.skip(Math.min(line.indent, block.indent));
        return true;
      case "code": return block.fence !== "" || line.isBlank || line.indent >= 4;
      default: return !line.isBlank; // a paragraph or a table, unless another block starts
    }
  }

  /** @param {number} depth how many open blocks the line continues @param {Line} line */
  #readBlocks(depth, line) {
    const before = this.#open.at(-1);
    while (!line.isBlank && this.#start(depth, line)) depth = this.#open.length;
    const last = this.#open.at(-1);
    if (line.isBlank) {
      this.#close(depth);
      this.#isAfterBlank = this.#open.at(-1)?.kind !== "quote" && last === before;
      return;
    }
    this.#isAfterBlank &&= !line.isFinished;
    if (line.isFinished) return;
    const { text } = line;
    if (last?.kind === "paragraph" && last.text.length + text.length >= LONGEST) {
      this.#startParagraph(this.#open.length - 1, text, true);
    } else if (last?.kind === "paragraph") {
      last.text += `\n${text}`; // also if its list or quote has no mark here: it is continued
      last.isShown = false;
    } else if (last?.kind === "table" && depth === this.#open.length) {
      this.#addTableRow(last, text);
    } else {
      this.#startParagraph(depth, text, false);
    }
    this.#isAfterBlank = false;
  }

  /** Start the block whose mark is next in a line.
   * @param {number} depth @param {Line} line
   * @returns {boolean} whether the rest of the line may start another block */
  #start(depth, line) {
    const text = line.text;
    const last = this.#open.at(-1);
    const inside = this.#open[depth - 1];
    const paragraph = inside?.kind === "paragraph" ? inside : null;
    if (paragraph !== null || inside?.kind === "table") depth -= 1; // which would end there
    if (line.indent >= 4) {
      if (last?.kind === "paragraph") return false;
      line.skip(4);
      this.#startCode(depth, "", 0, "");
      this.#addRow(/** @type {Code} */ (this.#open.at(-1)), line.rest, line.endsLine);
      return line.finish();
    }
    if (text[0] === ">" && depth < DEEPEST) {
      line.takeQuoteMark();
      this.#begin(depth, { kind: "quote", element: make("blockquote") });
      return true;
    }
    const heading = /^(#{1,6})(?:[ \t]|$)/.exec(text);
    if (heading !== null) {
      const level = heading[1]?.length ?? 1;
      const whole = trimmed(text.slice(level));
      this.#place(depth, headingOf(level, whole.replace(/(?:^|[ \t])#+$/, "")));
      return line.finish();
    }
    const fence = /^(`{3,})[^`]*$|^(~{3,})/.exec(text);
    if (fence !== null) {
      const mark = fence[1] ?? fence[2] ?? "";
      this.#startCode(depth, mark, line.indent, unescaped(trimmed(text.slice(mark.length))));
      return line.finish();
    }
    if (paragraph !== null && this.#transform(paragraph, text, line.endsLine)) return line.finish();
    if (/^(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/.test(text)) {
      this.#place(depth, make("hr"));
      return line.finish();
    }
    return depth < DEEPEST && this.#startItem(depth, line, paragraph !== null);
  }

  /** Turn a paragraph into a heading that this line underlines, or its last line into the header of
   * a table.
   * @param {Paragraph} paragraph @param {string} text @param {boolean} endsLine */
  #transform(paragraph, text, endsLine) {
    // While it is written, a single "-" is more likely the bullet of a list.
    if (/^(?:=+|-+)[ \t]*$/.test(text) && (endsLine || text.length > 2)) {
      const heading = headingOf(text[0] === "=" ? 1 : 2, paragraph.text);
      paragraph.element.replaceWith(heading);
      this.#undo?.push(() => heading.replaceWith(paragraph.element));
      this.#open.pop();
      return true;
    }
    if (!text.includes("|") || !/^[|:\- \t]+$/.test(text)) return false;
    const marks = cellsOf(text);
    const start = paragraph.text.lastIndexOf("\n") + 1;
    const header = cellsOf(paragraph.text.slice(start));
    const isTable = marks.length === header.length && marks.length <= WIDEST
      && marks.every((mark) => /^:?-+:?$/.test(mark));
    if (!isTable) return false;
    paragraph.text = paragraph.text.slice(0, Math.max(0, start - 1));
    paragraph.isShown = false;
    if (start === 0) {
      const { element } = paragraph;
      const parent = element.parentElement;
      element.remove(); // which is the last one of its parent
      this.#undo?.push(() => parent?.append(element));
    }
    this.#startTable(this.#open.length - 1, header, marks);
    return true;
  }

  /** @param {number} depth @param {Line} line
   * @param {boolean} interrupts whether the item would end a paragraph, which needs more */
  #startItem(depth, line, interrupts) {
    const found = /^(?:[-+*]|(\d{1,9})([.)]))(?=[ \t]|$)/.exec(line.text);
    if (found === null) return false;
    const [mark, number, delimiter = mark] = found;
    const isEmpty = trimmed(line.text.slice(mark.length)) === "";
    if (interrupts && (isEmpty || Number(number ?? 1) !== 1)) return false;

    const outside = line.indent;
    line.skip(outside);
    line.take(mark.length);
    const inside = isEmpty || line.indent > 4 ? 1 : line.indent;
    if (!isEmpty) line.skip(inside);

    let list = this.#open[depth - 1];
    if (list?.kind !== "list" || list.marker !== delimiter) {
      if (list?.kind === "list") depth -= 1;
      const element = number === undefined ? make("ul") : make("ol", { start: Number(number) });
      list = { kind: "list", element, marker: delimiter, next: Number(number ?? 1) };
      this.#begin(depth, list);
      depth += 1;
    }
    const indent = outside + mark.length + inside;
    this.#begin(depth, { kind: "item", element: make("li"), indent, isEmpty: true });
    list.next += 1;
    return true;
  }

  // Blocks

  /** Append an element to the block at a depth, and close what was open below it.
   * @param {number} depth @param {HTMLElement} element */
  #place(depth, element) {
    const isItem = element.tagName === "LI";
    if (!isItem && this.#open[depth - 1]?.kind === "list") depth -= 1;
    this.#close(depth);
    const parent = this.#open.at(-1);
    if (parent?.kind === "item") {
      if (this.#isAfterBlank && !parent.isEmpty) this.#loosen(this.#open.at(-2));
      parent.isEmpty = false;
    }
    if (isItem && this.#isAfterBlank) this.#loosen(parent);
    if (parent !== undefined && this.#height >= TALL) this.#divide();
    if (parent === undefined) this.#height = 0;
    (parent?.element ?? this.#chunks).append(element);
    this.#undo?.push(() => element.remove());
  }

  /** Open a block. @param {number} depth @param {Block} block
   * @param {HTMLElement} [outer] what is placed, if not the element of the block */
  #begin(depth, block, outer = block.element) {
    this.#place(depth, outer);
    this.#open.push(block);
  }

  /** Continue the open blocks in new elements: the layout can skip those that are out of sight. */
  #divide() {
    /** @type {HTMLElement | BlockChunks} */
    let parent = this.#chunks;
    for (const [index, block] of this.#open.entries()) {
      const element = /** @type {HTMLElement} */ (block.element.cloneNode(false));
      element.classList.add("continued");
      if (block.kind === "list" && element instanceof HTMLOListElement) {
        element.start = index + 1 < this.#open.length ? block.next - 1 : block.next;
      }
      parent.append(element);
      if (index === 0) this.#undo?.push(() => element.remove());
      parent = block.element = element;
    }
    this.#height = 0;
  }

  /** Put space between the items of a list. @param {Block | undefined} list */
  #loosen(list) {
    const element = list?.element;
    if (!element?.hasChildNodes() || element.hasAttribute("data-loose")) return;
    element.toggleAttribute("data-loose", true);
    this.#undo?.push(() => element.toggleAttribute("data-loose", false));
  }

  /** @param {number} depth how many blocks stay open */
  #close(depth) {
    if (depth < this.#open.length) this.#render();
    this.#open.length = Math.min(depth, this.#open.length);
  }

  /** @param {number} depth @param {string} text
   * @param {boolean} isContinued whether a reader should see one paragraph */
  #startParagraph(depth, text, isContinued) {
    const element = make("p");
    if (isContinued) element.classList.add("continued");
    const parent = this.#open[depth - 1];
    const isFirstInItem = parent?.kind === "item" && parent.isEmpty;
    this.#begin(depth, { kind: "paragraph", element, text, isFirstInItem, isShown: false });
  }

  /** Show the text of the paragraph that is open. */
  #render() {
    const paragraph = this.#open.at(-1);
    if (paragraph?.kind !== "paragraph" || paragraph.isShown) return;
    paragraph.isShown = true;
    const task = paragraph.isFirstInItem ? /^\[([ xX])\][ \t\n](?=.)/s.exec(paragraph.text) : null;
    const nodes = inlineNodes(paragraph.text.slice(task?.[0].length ?? 0));
    if (task !== null) {
      const [looks, label] = task[1] === " " ? ["task", "To do"] : ["task done", "Done"];
      nodes.unshift(make("span", { class: looks, role: "img", "aria-label": label }));
    }
    update(paragraph.element, nodes);
  }

  /** @param {number} depth @param {string} fence
   * @param {number} indent of the fence
   * @param {string} info */
  #startCode(depth, fence, indent, info) {
    const rows = new RowList();
    const pre = make("pre", { role: "group", "aria-label": `Code ${info}`.trim() }, rows.element);
    copyAsText(pre);
    const copy = make("button", { class: "quiet small", type: "button", text: "Copy" });
    // As it is shown: with hidden characters spelled out.
    copy.addEventListener("click", () => copyText(copy, pre.textContent ?? ""));
    const name = make("span", { class: "fenced-name", text: info || "Code" });
    const head = make("div", { class: "fenced-head" }, name, copy);
    const highlighter = highlighterFor(languageNamed(info.split(/[\s{:,]/)[0] ?? ""));
    const code = { element: pre, fence, indent, blanks: "", number: 1, rows, highlighter };
    this.#begin(depth, { kind: "code", ...code }, make("div", { class: "fenced" }, head, pre));
  }

  /** @param {Code} code @param {Line} line */
  #readCode(code, line) {
    this.#isAfterBlank = code.fence === "" && line.isBlank;
    if (code.fence !== "") {
      const { indent, text } = line;
      const mark = trimmed(text);
      if (indent < 4 && mark.startsWith(code.fence) && /^(.)\1*$/.test(mark)) {
        this.#open.pop();
        return;
      }
      line.skip(Math.min(indent, code.indent));
      this.#addRow(code, line.rest, line.endsLine);
      return;
    }
    line.skip(Math.min(line.indent, 4));
    if (line.isBlank) {
      code.blanks += `${line.rest}\n`;
      return;
    }
    for (const blank of code.blanks.split("\n").slice(0, -1)) this.#addRow(code, blank, true);
    code.blanks = "";
    this.#addRow(code, line.rest, line.endsLine);
  }

  /** @param {Code} code @param {string} text @param {boolean} endsLine
   * @param {boolean} [isContinuation] */
  #addRow(code, text, endsLine, isContinuation = false) {
    const row = makeRow({ text, number: code.number, isContinuation, endsLine });
    const { highlighter } = code;
    const tokens = this.#undo ? highlighter.peek(text) : highlighter.take(text, endsLine);
    fillRow(row, tokens, endsLine);
    code.rows.append(row);
    this.#undo?.push(() => row.remove());
    if (endsLine) code.number += 1;
    if (text.length <= NARROW) return;
    code.element.tabIndex = 0; // it may scroll sideways, which must work by keyboard too
    code.element.classList.add("is-wide");
  }

  /** @param {number} depth @param {string[]} header @param {string[]} marks such as `:--` */
  #startTable(depth, header, marks) {
    const element = make("tbody");
    const head = make("thead", {}, rowOf("th", header, marks));
    const box = { class: "table-box", role: "group", "aria-label": "Table", tabindex: 0 };
    const outer = make("div", box, make("table", {}, head, element));
    this.#begin(depth, { kind: "table", element, header, marks }, outer);
  }

  /** @param {Table} table @param {string} text */
  #addTableRow(table, text) {
    let { element } = table;
    if (this.#height >= TALL) {
      this.#startTable(this.#open.length - 1, table.header, table.marks);
      element = this.#open.at(-1)?.element ?? element;
      this.#height = 0;
    }
    // Missing cells are not added, or a short text could create very many.
    const row = rowOf("td", cellsOf(text).slice(0, table.header.length), table.marks);
    element.append(row);
    this.#undo?.push(() => row.remove());
  }
}

/** A line, of which the marks of blocks are consumed. It counts columns, as tabs require. */
class Line {
  /** @param {string} text @param {boolean} endsLine whether it is complete */
  constructor(text, endsLine) {
    this.rest = text;
    this.endsLine = endsLine;
  }

  isFinished = false;
  #column = 0;

  /** How many columns of white space come next. */
  get indent() {
    let column = this.#column;
    for (const character of this.rest) {
      if (character === " ") column += 1;
      else if (character === "\t") column += 4 - (column % 4);
      else break;
    }
    return column - this.#column;
  }

  /** The rest of the line without the white space before it. */
  get text() {
    return this.rest.replace(/^[ \t]+/, "");
  }

  get isBlank() {
    return /^[ \t]*$/.test(this.rest);
  }

  /** Skip columns of white space. A tab may be split. @param {number} columns */
  skip(columns) {
    while (columns > 0 && this.rest !== "") {
      const width = this.rest[0] === "\t" ? 4 - (this.#column % 4) : 1;
      const left = Math.max(0, width - columns);
      this.rest = " ".repeat(left) + this.rest.slice(1);
      this.#column += width - left;
      columns -= width;
    }
  }

  /** @param {number} count of characters, which are not white space */
  take(count) {
    this.rest = this.rest.slice(count);
    this.#column += count;
  }

  takeQuoteMark() {
    if (this.text[0] !== ">") return false;
    this.skip(this.indent);
    this.take(1);
    if (this.indent > 0) this.skip(1);
    return true;
  }

  /** Mark the line as consumed. @returns {false} since no other block can start in it */
  finish() {
    this.isFinished = true;
    return false;
  }
}

/** Return the next complete line of a text, or a piece of a line that is too long; null if the rest
 * of the text may become longer.
 * @param {string} text @param {number} at */
function pieceAt(text, at) {
  const rest = text.slice(at, at + LONGEST + 1);
  const newline = rest.indexOf("\n");
  if (newline >= 0) return { text: rest.slice(0, newline), length: newline + 1, endsLine: true };
  if (rest.length <= LONGEST) return null;
  const space = rest.lastIndexOf(" ") + 1;
  let length = space > LONGEST - 200 ? space : LONGEST;
  if (/[\ud800-\udbff]/.test(rest[length - 1] ?? "")) length -= 1; // the character has two halves
  return { text: rest.slice(0, length), length, endsLine: false };
}

/** Make a heading, one level down: the first level is the page's.
 * @param {number} level @param {string} text */
function headingOf(level, text) {
  const tag = /** @type {const} */ (["h2", "h3", "h4", "h5", "h6", "h6"])[level - 1] ?? "h6";
  const looks = { class: `level-${level}` };
  const element = make(tag, level === 6 ? { ...looks, "aria-level": 7 } : looks);
  update(element, inlineNodes(text));
  return element;
}

/** Remove white space at both ends, but nothing that is to be made visible. @param {string} text */
function trimmed(text) {
  return /[^ \t\n](?:[^]*[^ \t\n])?/.exec(text)?.[0] ?? "";
}

/** Return the cells of a table's row. @param {string} text */
function cellsOf(text) {
  const cells = trimmed(text).replace(/^\|/, "").split(/(?<=(?:^|[^\\])(?:\\\\)*)\|/);
  if (cells.at(-1) === "") cells.pop();
  return cells.map((cell) => trimmed(cell).replaceAll("\\|", "|"));
}

/** @param {"th" | "td"} tag @param {string[]} cells @param {string[]} marks such as `:--` */
function rowOf(tag, cells, marks) {
  return make("tr", {}, ...cells.map((text, index) => {
    const cell = make(tag, tag === "th" ? { scope: "col" } : {});
    const mark = marks[index] ?? "";
    if (mark.endsWith(":")) cell.className = mark.startsWith(":") ? "centered" : "right";
    update(cell, inlineNodes(text));
    return cell;
  }));
}

/** Replace the nodes of an element. Equal ones stay, and so does a selection in them.
 * @param {HTMLElement} element @param {Node[]} nodes */
function update(element, nodes) {
  const { childNodes } = element;
  let same = 0;
  while (same < nodes.length && childNodes[same]?.isEqualNode(nodes[same] ?? null)) same += 1;
  const [old, next] = [childNodes[same], nodes[same]];
  if (old instanceof Text && next instanceof Text && next.data.startsWith(old.data)) {
    old.appendData(next.data.slice(old.length));
    same += 1;
  }
  if (same === nodes.length && same === childNodes.length) return;
  element.dir = ""; // else the browser computes the direction after each of these steps
  while (childNodes.length > same) element.lastChild?.remove();
  element.append(...nodes.slice(same));
  element.dir = "auto";
}

// Inside of a line or a paragraph

/**
 * A run of `*`, `_` or `~`; `count` of them are not used yet.
 * @typedef {{ mark: string, count: number, length: number, canOpen: boolean, canClose: boolean }}
 *   Delimiter
 * @typedef {string | Element | Delimiter} Token
 */

const SPECIAL =
  /\\[\n!-/:-@[-`{-~]|&#?\w{1,10};|`+|\*+|_+|~+|<|!?\[|\]|\n|\bhttps?:\/\//g;
const PUNCTUATION = /[!-/:-@[-`{-~]/;
const ESCAPE = /\\([!-/:-@[-`{-~])|&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|([a-zA-Z]+));/g;
const ENTITIES = new Map(
  ("amp & lt < gt > quot \" apos ' copy © reg ® trade ™ hellip … mdash — ndash – lsquo ‘ rsquo ’"
    + " ldquo “ rdquo ” laquo « raquo » bull • middot · times × divide ÷ deg ° plusmn ± para ¶"
    + " sect § micro µ euro € pound £ yen ¥ cent ¢ larr ← rarr → uarr ↑ darr ↓ harr ↔ le ≤ ge ≥"
    + " ne ≠ asymp ≈ infin ∞ minus − sum ∑ radic √ check ✓")
    .split(/ (?=\w{2})/).map((pair) => /** @type {[string, string]} */ (pair.split(" "))),
).set("nbsp", " ");

/** @param {string} text */
function inlineNodes(text) {
  return nodesOf(new Inline(trimmed(text)).read());
}

/** Reads the text of a paragraph once: CommonMark's algorithm with a stack of delimiters. */
class Inline {
  /** @param {string} text */
  constructor(text) {
    this.#text = text;
  }

  #text;
  #at = 0;
  /** @type {Token[]} */ #tokens = [];
  /** @type {{ index: number, isImage: boolean, isActive: boolean }[]} */ #brackets = [];
  /** Runs of backticks that do not come again. */
  #unclosed = new Set();

  read() {
    while (this.#at < this.#text.length) {
      SPECIAL.lastIndex = this.#at;
      const found = SPECIAL.exec(this.#text);
      const end = found?.index ?? this.#text.length;
      if (end > this.#at) this.#tokens.push(this.#text.slice(this.#at, end));
      this.#at = end;
      if (found !== null) this.#readSpecial(found[0]);
    }
    return emphasised(this.#tokens);
  }

  /** @param {string} mark */
  #readSpecial(mark) {
    switch (mark[0]) {
      case "`": return this.#readCode(mark);
      case "*": case "_": case "~": return this.#readDelimiter(mark);
      case "[": case "!": return this.#openBracket(mark);
      case "]": return this.#closeBracket();
      case "<": return this.#readAutolink();
      case "\n": return this.#readLineEnd();
      case "h": return this.#readAddress();
      default: this.#add(mark === "\\\n" ? make("br") : unescaped(mark), mark.length);
    }
  }

  /** @param {Token} token @param {number} length of its text */
  #add(token, length) {
    this.#tokens.push(token);
    this.#at += length;
  }

  /** A newline stays one, for the style of the page; after two spaces it is a line break. */
  #readLineEnd() {
    const before = this.#tokens.at(-1);
    let spaces = 0;
    if (typeof before === "string") {
      while (before.at(-1 - spaces) === " ") spaces += 1;
      this.#tokens[this.#tokens.length - 1] = before.slice(0, before.length - spaces);
    }
    this.#add(spaces >= 2 ? make("br") : "\n", 1);
  }

  /** @param {string} mark */
  #readCode(mark) {
    const start = this.#at + mark.length;
    const pattern = new RegExp(`(?<!\`)${mark}(?!\`)`, "g");
    const end = this.#unclosed.has(mark) ? null : matchAt(pattern, this.#text, start);
    if (end === null) {
      this.#unclosed.add(mark);
      this.#add(mark, mark.length);
      return;
    }
    let text = this.#text.slice(start, end.index).replaceAll("\n", " ");
    if (/^ .*[^ ].* $/.test(text)) text = text.slice(1, -1);
    this.#add(make("code", { text }), end.index + mark.length - this.#at);
  }

  /** @param {string} run */
  #readDelimiter(run) {
    const { length, 0: mark = "" } = run;
    const before = /(?:[\ud800-\udbff][\udc00-\udfff]|[^])$/.exec(
      this.#text.slice(Math.max(0, this.#at - 2), this.#at),
    )?.[0] ?? " ";
    const after = String.fromCodePoint(this.#text.codePointAt(this.#at + length) ?? 32);
    const isAfterSign = /[\p{P}\p{S}]/u.test(before);
    const isBeforeSign = /[\p{P}\p{S}]/u.test(after);
    const isLeft = !/\s/.test(after) && (!isBeforeSign || /\s/.test(before) || isAfterSign);
    const isRight = !/\s/.test(before) && (!isAfterSign || /\s/.test(after) || isBeforeSign);
    const isWord = mark === "_"; // which has underscores inside
    const canOpen = isLeft && (!isWord || !isRight || isAfterSign);
    const canClose = isRight && (!isWord || !isLeft || isBeforeSign);
    if (mark === "~" ? length !== 2 : length > DEEPEST) this.#add(run, length);
    else this.#add({ mark, count: length, length, canOpen, canClose }, length);
  }

  #readAutolink() {
    const pattern = /<(?:([a-z][a-z\d+.-]{1,31}:[^\s<>]*)|([\w.!#$%&'*+/=?^`{|}~-]+@[\w.-]+))>/iy;
    const found = matchAt(pattern, this.#text, this.#at);
    const address = found?.[1] ?? found?.[2] ?? "";
    const url = safeUrl(found?.[2] === undefined ? address : `mailto:${address}`);
    if (found === null || url === null) this.#add("<", 1);
    else this.#add(linkTo(url, [address]), found[0].length);
  }

  /** Read an address that stands in the text as it is, as GFM does. */
  #readAddress() {
    let address = matchAt(/https?:\/\/[^\s<>[\]`*|"\\]+/y, this.#text, this.#at)?.[0] ?? "";
    for (;;) {
      const isExtra = /[?!.,:;'_~]$/.test(address)
        || (address.endsWith(")") && address.split(")").length > address.split("(").length);
      if (!isExtra) break;
      address = address.slice(0, -1);
    }
    const url = safeUrl(address);
    if (url === null) this.#add(this.#text.slice(this.#at, this.#at + 4), 4);
    else this.#add(linkTo(url, [address]), address.length);
  }

  /** @param {string} mark */
  #openBracket(mark) {
    const index = this.#tokens.length;
    this.#brackets.push({ index, isImage: mark === "![", isActive: true });
    if (this.#brackets.length > DEEPEST) this.#brackets.shift();
    this.#add(mark, mark.length);
  }

  #closeBracket() {
    const bracket = this.#brackets.pop();
    const target = bracket?.isActive ? this.#targetAt(this.#at + 1) : null;
    if (bracket === undefined || target === null) {
      this.#add("]", 1);
      return;
    }
    const inner = emphasised(this.#tokens.splice(bracket.index).slice(1));
    this.#add(linkTo(target.url, inner, bracket.isImage), target.end - this.#at);
    if (bracket.isImage) return;
    for (const outer of this.#brackets) outer.isActive &&= outer.isImage; // no link inside a link
  }

  /** Read `(address "title")`. @param {number} start */
  #targetAt(start) {
    const text = this.#text;
    if (text[start] !== "(") return null;
    let at = afterSpace(text, start + 1);
    const angled = matchAt(/<((?:[^<>\\\n]|\\.)*)>/y, text, at);
    const end = angled === null ? addressEnd(text, at) : at + angled[0].length;
    const url = safeUrl(unescaped(angled?.[1] ?? text.slice(at, Math.max(at, end))));
    if (end < 0 || url === null) return null;
    at = afterSpace(text, end);
    const title = at > end
      ? matchAt(/"(?:[^"\\]|\\[^])*"|'(?:[^'\\]|\\[^])*'|\((?:[^()\\]|\\[^])*\)/y, text, at)
      : null;
    if (title !== null) at = afterSpace(text, at + title[0].length);
    return text[at] === ")" ? { url, end: at + 1 } : null;
  }
}

/** Find the end of a link's address without angles: its parentheses are balanced.
 * @param {string} text @param {number} at
 * @returns {number} -1 if there is no such end */
function addressEnd(text, at) {
  if (text[at] === "<") return -1;
  let nesting = 0;
  for (; at < text.length; at += 1) {
    const character = text[at] ?? "";
    if (character <= " " || character === "\x7f") break;
    if (character === ")" && nesting === 0) break;
    if (character === "(") nesting += 1;
    else if (character === ")") nesting -= 1;
    else if (character === "\\" && PUNCTUATION.test(text[at + 1] ?? "")) at += 1;
    if (nesting > DEEPEST) return -1;
  }
  return nesting === 0 ? at : -1;
}

/** @param {RegExp} pattern a sticky or global one @param {string} text @param {number} at */
function matchAt(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

/** @param {string} text @param {number} at */
function afterSpace(text, at) {
  while (/[ \t\n]/.test(text[at] ?? "")) at += 1;
  return at;
}

/** Read backslash escapes and entities. An entity that is not known stays as it is.
 * @param {string} text */
function unescaped(text) {
  return text.replace(ESCAPE, (whole, escaped, decimal, hexadecimal, name) => {
    if (escaped !== undefined) return escaped;
    if (name !== undefined) return ENTITIES.get(name) ?? whole;
    const code = parseInt(decimal ?? hexadecimal, decimal === undefined ? 16 : 10);
    const isCharacter = code > 0 && code < 0x110000 && !(code >= 0xd800 && code < 0xe000);
    return String.fromCodePoint(isCharacter ? code : 0xfffd);
  });
}

/** Resolve emphasis: each delimiter that can close looks back for one that can open.
 * @param {Token[]} tokens */
function emphasised(tokens) {
  /** @type {Token[]} */
  const out = [];
  /** Where in `out` delimiters are that can open; few, since elements are nested as deep. */
  /** @type {number[]} */
  const openers = [];
  /** Where a search for an opener ends, since one for an equal closer has failed there. */
  /** @type {Map<string, number>} */
  const bottoms = new Map();
  for (const token of tokens) {
    while (isDelimiter(token) && token.canClose && token.count > 0) {
      const key = `${token.mark}${token.canOpen}${token.length % 3}`;
      const bottom = bottoms.get(key) ?? -1;
      const place = openers.findLastIndex((at) => at > bottom && matches(out[at], token));
      const opener = out[openers[place] ?? -1];
      if (!isDelimiter(opener)) {
        bottoms.set(key, out.length - 1);
        break;
      }
      const isStrong = opener.count >= 2 && token.count >= 2;
      const element = make(token.mark === "~" ? "del" : isStrong ? "strong" : "em");
      element.append(...nodesOf(out.splice((openers[place] ?? 0) + 1)));
      openers.length = place + 1;
      opener.count -= isStrong ? 2 : 1;
      token.count -= isStrong ? 2 : 1;
      if (opener.count === 0) out.length = openers.pop() ?? 0;
      out.push(element);
    }
    if (isDelimiter(token) && token.canOpen && token.count > 0) openers.push(out.length);
    if (openers.length > DEEPEST) openers.shift();
    out.push(token);
  }
  return out;
}

/** Return whether a delimiter can be the opener of another one.
 * @param {Token | undefined} opener @param {Delimiter} closer */
function matches(opener, closer) {
  if (!isDelimiter(opener) || opener.mark !== closer.mark) return false;
  const [one, other] = [opener.length, closer.length];
  const isOdd = (one + other) % 3 === 0 && !(one % 3 === 0 && other % 3 === 0);
  return !(isOdd && (closer.canOpen || opener.canClose));
}

/** @param {Token | undefined} token @returns {token is Delimiter} */
function isDelimiter(token) {
  return typeof token === "object" && "mark" in token;
}

/** Return tokens as nodes; texts that follow each other become one. @param {Token[]} tokens */
function nodesOf(tokens) {
  /** @type {(string | Element)[]} */
  const parts = [""];
  for (const token of tokens) {
    const part = isDelimiter(token) ? token.mark.repeat(token.count) : token;
    const last = parts.at(-1);
    if (typeof part === "string" && typeof last === "string") parts[parts.length - 1] = last + part;
    else parts.push(part);
  }
  return parts.filter((part) => part !== "").map((part) => {
    return typeof part === "string" ? document.createTextNode(visible(part)) : part;
  });
}

// Links

/** Return an address that a link may have: an absolute one of http, https or mailto.
 * @param {string} address */
function safeUrl(address) {
  const url = URL.parse(address);
  return url !== null && /^(?:https?|mailto):$/.test(url.protocol) ? url : null;
}

/** Make a link. Where its text would mislead about its address, the address is shown behind it.
 * @param {URL} url @param {Token[]} inner @param {boolean} [isImage] */
function linkTo(url, inner, isImage = false) {
  const how = { rel: "noopener noreferrer", target: "_blank" };
  const element = make("a", { href: url.href, title: url.href, ...how });
  element.append(...nodesOf(inner));
  if (isImage) element.className = "image";
  if (isImage) element.textContent = element.textContent; // an alternative text has no elements
  for (const other of element.querySelectorAll("a")) other.replaceWith(other.textContent);
  const address = (url.host + url.pathname).slice(0, 100);
  if (trimmed(element.textContent) === "") element.append(visible(address));
  else if (misleads(element.textContent, url)) {
    element.append(make("span", { class: "target", text: ` (${address})` }));
  }
  return element;
}

/** Return whether a text contains an address that is not the one of its link, or whether the link's
 * address starts with what looks like another host.
 * @param {string} text @param {URL} url */
function misleads(text, url) {
  if (url.protocol !== "mailto:" && (url.username !== "" || url.password !== "")) return true;
  if (url.host.includes("xn--") && !text.includes(url.host)) return true; // letters look alike
  const words = text.normalize("NFKC").split(/\s+/);
  return words.some((word) => /\S\.\p{L}{2}|:\/\/|\S@\S/u.test(word) && !isAddressOf(word, url));
}

/** @param {string} word @param {URL} url */
function isAddressOf(word, url) {
  const address = word.replace(/^[("'<]+|[)"'>.,;:!?]+$/g, "");
  if (url.protocol === "mailto:") return address.replace(/^mailto:/, "") === url.pathname;
  const said = URL.parse(/^https?:/i.test(address) ? address : `https://${address}`);
  if (said === null || said.username !== "") return false;
  if (said.host.replace(/^www\./, "") !== url.host.replace(/^www\./, "")) return false;
  return said.pathname === "/" || said.pathname + said.search === url.pathname + url.search;
}
