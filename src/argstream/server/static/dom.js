import { ServerProblem } from "./argstream.js";
/** @import { Call, Client } from "./argstream.js" */
/** @import { EventFrame } from "./types.js" */

// What a model wrote, made safe to show, by the rules of argstream/sanitise.py, where they are
// explained. Each character is spelled alike wherever it stands, so a stream can be made visible
// piece by piece.

const variations = Array.from({ length: 256 }, (_, at) => `VS${at + 1}`);
/** Names of consecutive characters. @type {[first: number, names: string][]} */
const NAMES = [
  [0x0000, `NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB
    CAN EOM SUB ESC FS GS RS US`],
  [0x007f, `DEL PAD HOP BPH NBH IND NEL SSA ESA HTS HTJ VTS PLD PLU RI SS2 SS3 DCS PU1 PU2 STS CCH
    MW SPA EPA SOS SGC SCI CSI ST OSC PM APC NBSP`],
  [0x00ad, "SHY"],
  [0x034f, "CGJ"],
  [0x061c, "ALM"],
  [0x180b, "FVS1 FVS2 FVS3 MVS FVS4"],
  [0x200b, "ZWSP ZWNJ ZWJ LRM RLM"],
  [0x202a, "LRE RLE PDF LRO RLO NNBSP"],
  [0x205f, "MMSP WJ"],
  [0x2066, "LRI RLI FSI PDI"],
  [0xfeff, "BOM"],
  [0xfe00, variations.slice(0, 16).join(" ")],
  [0xe0100, variations.slice(16).join(" ")],
];

const [opening, closing] = ["\u27e6", "\u27e7"];
const codes = new Map(
  NAMES.flatMap(([first, names]) => names.split(/\s+/).map((name, at) => [name, first + at])),
);
const names = new Map([...codes].map(([name, code]) => [code, name]));

// Control and format characters, private use, surrogates, those that the browser does not know, all
// spaces but two, and letters, marks and symbols without a visible shape.
const HIDDEN =
  `(?![ \\u3000])[\\p{C}\\p{Z}\\p{DI}\\u2800\\u{13441}\\u{13442}\\u{16fe4}\\u{1d159}${opening}]`;
const hidden = new RegExp(HIDDEN, "gu");
const hiddenInText = new RegExp(`(?![\\t\\n])${HIDDEN}`, "gu");
const plainText = /^[\t\n\x20-\x7e]*$/;
const plainLine = /^[\x20-\x7e]*$/;
const spelling = new RegExp(
  `${opening}(?:U\\+((?:[1-9A-F]|10)?[0-9A-F]{4})|([A-Z0-9]+))${closing}`,
  "gu",
);

/** Spells out what would act or hide; newlines and tabs stay. @param {string} text */
export function visible(text) {
  return plainText.test(text) ? text : text.replace(hiddenInText, spell);
}

/** Spells out newlines and tabs too: for a name or a title, which are one line.
 * @param {string} text */
export function visibleLine(text) {
  return plainLine.test(text) ? text : text.replace(hidden, spell);
}

/** Returns a text with each run of white space as one space. @param {string} text */
export function oneLine(text) {
  return text.trim().replaceAll(/[ \t\r\n]+/g, " ");
}

/** Reads back what `visible` or `visibleLine` has spelled. What is not a spelling stays as it is.
 * @param {string} shown */
export function original(shown) {
  return shown.replace(spelling, (whole, number, name) => {
    const code = number ? parseInt(number, 16) : codes.get(name);
    return code === undefined ? whole : String.fromCodePoint(code);
  });
}

// Letters that look like Latin ones, and combining marks.
const latin = "A-Za-z\u00c0-\u024f\u1e00-\u1eff";
const scripts = {
  Armenian: "\u0531-\u0587",
  Cherokee: "\u13a0-\u13fd\uab70-\uabbf",
  Coptic: "\u2c80-\u2cf3",
  Cyrillic: "\u0400-\u0481\u048a-\u052f\u1c80-\u1c88\ua640-\ua66e\ua680-\ua69d",
  Greek: "\u037f\u0391\u0392\u0395-\u0397\u0399\u039a\u039c-\u039f\u03a1\u03a4\u03a5\u03a7"
    + "\u03b1\u03b3\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03f2\u03f3\u03f9"
    + "\u1f00-\u1ffc",
  Lisu: "\ua4d0-\ua4fd",
};
const marks = "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u064b-\u065f\u06d6-\u06dc\u0e31\u0e34-\u0e3a"
  + "\u0e47-\u0e4e\u0f71-\u0f84\u1ab0-\u1ace\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f";
const mixedWith = Object.values(scripts).join("");
// Each alternative ends where the script changes. A letter after a backslash may be an escape: \n
const change = new RegExp(
  `(?<!\\\\)[${latin}][0-9${marks}]{0,8}(?=[${mixedWith}])`
    + `|[${mixedWith}][0-9${marks}]{0,8}(?=[${latin}])`,
  "g",
);
const stack = new RegExp(`[${marks}]{5,}`, "g");
const inWord = new RegExp(`[0-9${latin}${mixedWith}]`);
const isLatin = new RegExp(`[${latin}]`);
const MAX_WORD = 20;
const MAX_WARNINGS = 3;
const MAX_FOUND = 1000;

/** Returns warnings about texts in a JSON value that may not be what they seem, as
 * `argstream.sanitise.warnings_about` does: words that mix scripts, and stacks of marks.
 * @param {unknown} value @returns {string[]} */
export function warningsAbout(value) {
  /** @type {Set<string>} */
  const found = new Set();
  const values = [value];
  let left = MAX_FOUND;
  while (values.length) {
    const one = values.pop();
    if (typeof one === "string" && !plainText.test(one)) {
      for (const warning of warningsIn(one)) {
        left -= 1;
        if (!left || (found.size === MAX_WARNINGS && !found.has(warning))) {
          return [...found, "More such words"];
        }
        found.add(warning);
      }
    } else if (Array.isArray(one)) {
      for (const item of one.toReversed()) values.push(item);
    } else if (one && typeof one === "object") {
      for (const [name, member] of Object.entries(one).reverse()) values.push(member, name);
    }
  }
  return [...found];
}

/** @param {string} text */
function* warningsIn(text) {
  for (const { 0: changed, index } of text.matchAll(change)) {
    let [start, end] = [index, index + changed.length];
    const other = isLatin.test(changed[0] ?? "") ? text[end] ?? "" : changed[0] ?? "";
    while (index - start < MAX_WORD && inWord.test(text[start - 1] ?? "")) start -= 1;
    while (end - index - changed.length < MAX_WORD && inWord.test(text[end] ?? "")) end += 1;
    const script = Object.entries(scripts)
      .find(([, letters]) => new RegExp(`[${letters}]`).test(other))?.[0];
    const word = visibleLine(text.slice(start, end));
    const number = numberOf(other.codePointAt(0) ?? 0);
    yield `Mixed scripts: “${word}” has ${script} ${other} (${number})`;
  }
  for (const { 0: marked, index } of text.matchAll(stack)) {
    const base = visibleLine([...text.slice(Math.max(index - 2, 0), index)].at(-1) ?? "");
    yield `Stacked marks: “${base}” has ${marked.length} combining marks`;
  }
}

/** @param {string} character */
function spell(character) {
  const code = character.codePointAt(0) ?? 0;
  return opening + (names.get(code) ?? numberOf(code)) + closing;
}

/** @param {number} code */
function numberOf(code) {
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

// Elements without markup: what is shown goes into text nodes and attributes, and is made visible
// first. There is no way here to turn a text into an element or into code.

/**
 * The attributes of an element, and its `text`. `true` is an attribute without a value.
 * @typedef {{ text?: string, [attribute: string]: string | number | true | undefined }} Making
 */

/** Makes an element. Its text and its attributes are made visible.
 * @template {keyof HTMLElementTagNameMap} Tag @param {Tag} tag @param {Making} [making]
 * @param {(Node | string)[]} children strings are made visible too
 * @returns {HTMLElementTagNameMap[Tag]} */
export function make(tag, { text, ...attributes } = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    setAttribute(element, name, value === true ? "" : String(value));
  }
  if (text !== undefined) element.append(visible(text));
  for (const child of children) {
    element.append(typeof child === "string" ? visible(child) : child);
  }
  return element;
}

/** Sets an attribute, whose value is made visible. @param {Element} element @param {string} name
 * @param {string} value */
export function setAttribute(element, name, value) {
  if (/^on|^style$|^srcdoc$/i.test(name)) throw new TypeError(`not an attribute to set: ${name}`);
  element.setAttribute(name, visibleLine(value));
}

/** Sets a text that is visible already, unless it is set: so a selection in it stays.
 * @param {Element} element @param {string} text */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Sets the children. Those in their order are not moved, so that they keep the focus.
 * @param {Element} element @param {Iterable<Element>} children */
export function setChildren(element, children) {
  const wanted = new Set(children);
  for (const child of [...element.children]) if (!wanted.has(child)) child.remove();
  let next = element.firstElementChild;
  for (const child of wanted) {
    if (child === next) next = next.nextElementSibling;
    else element.insertBefore(child, next);
  }
}

/** Makes a button. To disable it, set `aria-disabled`: `disabled` would remove the focus.
 * @param {string} text @param {string} looks class names @param {() => void} press */
export function button(text, looks, press) {
  const element = make("button", { type: "button", class: `act ${looks}`.trim(), text });
  element.addEventListener("click", () => {
    if (element.ariaDisabled !== "true") press();
  });
  return element;
}

// Controls of the page.

const COPY = { copied: "Copied", copyFailed: "Couldn't copy" };

/** Copy a text, and let a button report that for a moment.
 * @param {HTMLElement} button @param {string} text
 * @param {{ copy: string, copied: string, copyFailed: string }} [words] */
export async function copyText(button, text, words = { ...COPY, copy: button.textContent }) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = words.copied;
  } catch {
    button.textContent = words.copyFailed; // not allowed, or not a secure context
  }
  setTimeout(() => (button.textContent = words.copy), 2000);
}

/** An icon of index.html. @param {string} name */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "icon");
  svg.ariaHidden = "true";
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

/** Shows a field in the place of a title until Enter, Escape, or until it loses the focus.
 * @param {HTMLElement} element what is hidden meanwhile @param {string} title
 * @param {HTMLElement} back what has the focus afterwards @param {(title: string) => void} save */
export function editTitle(element, title, back, save) {
  const looks = { class: "field title-field", "aria-label": "Title", maxlength: 200 };
  const field = make("input", looks);
  field.value = title;
  /** @param {boolean} isSaved */
  const end = (isSaved) => {
    field.onblur = null; // it is removed
    const hadFocus = document.activeElement === field;
    const words = field.value.trim();
    field.remove();
    element.hidden = false;
    if (hadFocus) back.focus();
    if (isSaved && words !== "" && words !== title) save(words);
  };
  field.onblur = () => end(true);
  field.addEventListener("keydown", (event) => {
    if (event.isComposing || !["Enter", "Escape"].includes(event.key)) return;
    event.preventDefault(); // Escape would close the drawer
    event.stopPropagation();
    end(event.key === "Enter");
  });
  element.hidden = true;
  element.after(field);
  field.select();
}

const ITEM_HEIGHT = 44; // pixels that an item of a menu takes at most

/** `act` is missing if there is nothing to press.
 * @typedef {{ label: string, act?: () => void, isDanger?: boolean }} MenuItem */

/** Makes the menu that a button opens. The browser closes it on Escape and on a click elsewhere.
 * @param {HTMLButtonElement} button
 * @param {() => (MenuItem | HTMLElement)[]} items called each time it opens */
export function attachMenu(button, items) {
  const menu = make("div", { class: "menu", role: "menu", popover: "auto" });
  button.popoverTargetElement = menu;
  button.ariaHasPopup = "menu";
  button.ariaExpanded = "false";
  menu.addEventListener("beforetoggle", (event) => {
    const isOpen = /** @type {ToggleEvent} */ (event).newState === "open";
    button.ariaExpanded = String(isOpen);
    if (!isOpen) return;
    const all = items();
    menu.replaceChildren(
      ...all.map((item) => (item instanceof HTMLElement ? item : makeItem(item, menu))),
    );
    const { top, bottom, right } = button.getBoundingClientRect();
    const fitsBelow = bottom + menu.childElementCount * ITEM_HEIGHT < innerHeight;
    menu.style.setProperty("top", fitsBelow ? `${bottom + 4}px` : "auto");
    menu.style.setProperty("bottom", fitsBelow ? "auto" : `${innerHeight - top + 4}px`);
    menu.style.setProperty("right", `${document.documentElement.clientWidth - right}px`);
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key === "Tab") menu.hidePopover();
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    const all = /** @type {HTMLElement[]} */ ([...menu.children]);
    const at = all.findIndex((item) => item.matches(":focus"));
    all.at((event.key === "ArrowDown" ? at + 1 : at - 1) % all.length)?.focus();
  });
  return menu;
}

/** @param {MenuItem} item @param {HTMLElement} menu */
function makeItem({ label, act, isDanger = false }, menu) {
  const looks = { type: "button", class: "menu-item", role: "menuitem" };
  const item = make("button", { ...looks, text: label });
  item.classList.toggle("is-danger", isDanger);
  item.autofocus = true; // the first one has the focus when the menu opens
  if (act === undefined) item.ariaDisabled = "true";
  item.addEventListener("click", () => {
    menu.hidePopover(); // the button has the focus again
    act?.();
  });
  return item;
}

// How long a call has been in its state. Times of events are by the clock of the server, which may
// differ, and those of a replay are in the past. So the time in a state starts when it was first seen
// here. If it began before the snapshot that the call is known from, the time up to the snapshot is
// added. The sum is a lower bound.

/** @type {WeakMap<Call, Map<string, number>>} */
const seen = new WeakMap();

/** Returns how many seconds a call had been in its state at the time of its snapshot, at least;
 * null if it entered the state later, or was in no snapshot. @param {Call} call */
function secondsBefore({ state, snapshotAt, startedAt, executedAt, requestedAt }) {
  if (snapshotAt === null) return null;
  const time = state === "running" ? executedAt.at(-1) : state === "pending" ? requestedAt : null;
  const since = (state === "writing" ? startedAt : time) ?? snapshotAt;
  return since <= snapshotAt ? snapshotAt - since : null;
}

/** Returns whether a call was in its state before it was seen here. Then only the server's clock
 * shows for how long. @param {Call} call */
export function wasInState(call) {
  return secondsBefore(call) !== null;
}

/** Returns the seconds for which this call has been in its state, as far as is known.
 * @param {Call} call */
export function secondsInState(call) {
  return (secondsBefore(call) ?? 0) + secondsSeen(call);
}

/** @param {Call} call */
function secondsSeen(call) {
  let states = seen.get(call);
  if (!states) seen.set(call, (states = new Map()));
  const now = performance.now() / 1000;
  const since = states.get(call.state);
  if (since === undefined) states.set(call.state, now);
  return since === undefined ? 0 : now - since;
}

/** Returns the seconds that are left to decide on a call, or null without a limit.
 * @param {Call} call */
export function secondsLeft(call) {
  const until = call.request?.expires_at ?? null;
  if (until === null) return null;
  // If the time of the request is known, both are the server's, and its clock does not matter.
  if (call.requestedAt !== null && !wasInState(call)) {
    return until - call.requestedAt - secondsSeen(call);
  }
  return until - Date.now() / 1000;
}

// Right-to-left letters in lines that run from the left. A browser would move the numbers and signs
// behind them, so that "1 > 2" looks like "2 < 1". Here each run of such letters, with the spaces
// between them, is isolated, and everything else keeps its order.

// Letters that run from the right, or that reorder their neighbours as Arabic numbers do.
const RIGHT = "\\u0590-\\u08ff\\ufb1d-\\ufdff\\ufe70-\\ufefe"
  + "\\u{10800}-\\u{10fff}\\u{1e800}-\\u{1efff}";
const NUMBERS = "\\u0600-\\u0605\\u0660-\\u0669\\u066b\\u066c\\u06dd\\u06f0-\\u06f9\\u0890\\u0891"
  + "\\u08e2\\u{10d30}-\\u{10d39}\\u{10d40}-\\u{10d49}\\u{10e60}-\\u{10e7e}";
const LETTER = `(?:(?![${NUMBERS}])[${RIGHT}])`;

const some = new RegExp(`[${RIGHT}]`, "u");
const runs = new RegExp(
  `((?:[${NUMBERS}]\\p{M}*)+|${LETTER}(?:${LETTER}|\\p{M}|[ ]+(?=${LETTER}))*)`, "u",
);

/** Returns what to append for a text that `visible()` has escaped.
 * @param {string} text @returns {(string | Node)[]} */
export function inOrder(text) {
  return text.split(runs).map((piece, at) => {
    if (at % 2 === 0) return piece;
    const island = make("span", { class: "from-right" });
    island.append(piece);
    return island;
  });
}

/** Returns a node for a text that `visible()` has escaped. @param {string} text @returns {Node} */
export function inOneNode(text) {
  if (!some.test(text)) return document.createTextNode(text);
  return setInOrder(document.createElement("span"), text);
}

/** Shows text that `visible()` has escaped. Does nothing if it is already shown.
 * @template {Element} Kind @param {Kind} element @param {string} text */
export function setInOrder(element, text) {
  if (element.textContent !== text) element.replaceChildren(...inOrder(text));
  return element;
}

/** Returns the first index from which on something holds, or the length if it holds for none.
 * @template Item
 * @param {readonly Item[]} items for which it does not hold, and then those for which it does
 * @param {(item: Item) => boolean} holds */
export function firstIndex(items, holds) {
  let [low, high] = [0, items.length];
  while (low < high) {
    const half = (low + high) >> 1;
    if (holds(/** @type {Item} */ (items[half]))) high = half;
    else low = half + 1;
  }
  return low;
}

/** Copies rows of a view as their text. A browser would put a newline between any two rows.
 * @param {HTMLElement} element */
export function copyAsText(element) {
  element.addEventListener("copy", (event) => {
    const range = selectedRange(element);
    if (range === null || event.clipboardData === null) return; // the browser's own way
    event.clipboardData.setData("text/plain", range.cloneContents().textContent ?? "");
    event.preventDefault();
  });
}

/** Returns what is selected, if all of it is in an element. @param {HTMLElement} element */
export function selectedRange(element) {
  // In Chromium, a shadow root has a selection of its own; elsewhere there is one for all.
  const root = /** @type {{ getSelection?: () => Selection | null }} */ (element.getRootNode());
  const selection = root.getSelection?.() ?? document.getSelection();
  if (!selection || selection.isCollapsed || selection.rangeCount !== 1) return null;
  const range = selection.getRangeAt(0);
  return element.contains(range.commonAncestorContainer) ? range : null;
}

// Numbers, sizes, durations and paths in words. Nothing the model wrote comes through unless it is
// said so.

const numbers = new Intl.NumberFormat("en");

/** A number with its noun: "1 line", "1,204 lines". @param {number} count @param {string} noun */
export function countOf(count, noun) {
  return `${numbers.format(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** A duration: tenths as long as they can be followed, then seconds, then minutes.
 * @param {number} seconds */
export function durationWords(seconds) {
  // A clock that was set back must not show a negative time.
  const known = Math.max(0, seconds);
  if (known < 9.95) return `${known.toFixed(1)} s`;
  const whole = Math.round(known);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${twoDigits(whole % 60)} s`;
  return `${numbers.format(Math.floor(minutes / 60))} h ${twoDigits(minutes % 60)} min`;
}

/** @param {number} number */
function twoDigits(number) {
  return String(number).padStart(2, "0");
}

/** Where in the arguments something is: `files[2].path`. Keys that are no plain words are quoted,
 * so that "a.b" cannot pass for b in a; argstream/terminal/waterfall does the same. The keys are
 * the model's: show them by `visibleLine`. @param {readonly (string | number)[]} path */
export function pathWords(path) {
  let words = "";
  for (const step of path) {
    if (typeof step === "number") words += `[${step}]`;
    else if (/^[\p{L}\p{N}_-]+$/u.test(step)) words += words ? `.${step}` : step;
    else words += `[${JSON.stringify(step)}]`;
  }
  return words;
}

const CLOCK_FROM = 120; // seconds from which minutes are easier to read
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const dayAndTime = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** Returns how long ago something was. @param {number} then a Unix time in seconds */
export function ago(then) {
  const seconds = Date.now() / 1000 - then;
  if (seconds < 45) return "now";
  if (seconds < 3600) return `${Math.max(1, Math.round(seconds / 60))} min`;
  if (seconds < 86400) return `${Math.round(seconds / 3600)} h`;
  return day.format(then * 1000);
}

/** @param {number} then in seconds since 1970 */
export function exactly(then) {
  return dayAndTime.format(then * 1000);
}

/** Returns a duration in few characters. @param {number} seconds
 * @returns {string} */
export function duration(seconds) {
  const length = Math.max(0, seconds);
  if (length < 0.0995) {
    const milliseconds = length * 1000;
    const isTiny = milliseconds >= 0.05 && milliseconds < 0.95;
    return `${milliseconds.toFixed(isTiny ? 1 : 0)} ms`;
  }
  if (length < 59.95) return `${length.toFixed(1)} s`;
  const whole = Math.round(length);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.floor(minutes / 1440)} d ${Math.floor(minutes / 60) % 24} h`;
}

/** Formats a time since the start of the run. @param {number} seconds @param {number} digits
 * @param {number} [longest] the largest of the times shown with it, which get the same format */
export function moment(seconds, digits, longest = seconds) {
  return longest < CLOCK_FROM ? `${seconds.toFixed(digits)} s` : clock(seconds, digits);
}

/** Formats a time like a clock: "1:02", or "1:02:03" from one hour.
 * @param {number} time in seconds @param {number} [digits] of a second @returns {string} */
export function clock(time, digits = 0) {
  const whole = Number(time.toFixed(digits));
  const minutes = Math.floor(whole / 60);
  const rest = (whole - minutes * 60).toFixed(digits).padStart(digits > 0 ? digits + 3 : 2, "0");
  const hours = Math.floor(minutes / 60);
  if (hours === 0) return `${minutes}:${rest}`;
  return `${hours}:${String(minutes % 60).padStart(2, "0")}:${rest}`;
}

// Work for the screen, in slices: whatever comes, a frame spends no more than its budget on it, so
// that the page stays smooth, and what is left goes on in the next frame.
//
// A tab that is not seen has no frames. A timer steps in there, and as nothing has to be smooth, it
// may take longer.

const BUDGET = 4; // milliseconds of a frame for all tasks: the layout takes four times as long
const LEAST = 2; // and where the layout of what they have done takes longer than SMOOTH
const SMOOTH = 12; // milliseconds of a frame for the tasks and the layout
const HIDDEN_BUDGET = 40; // where no frames are drawn, and timers are rare
const PATIENCE = 250; // milliseconds after which a frame is not waited for any longer

/**
 * A piece of work. It gets a function that says whether there is time left, and returns whether it
 * is done; if it is not, it is called again in the next frame.
 * @typedef {(hasTime: () => boolean) => boolean} Task
 */

/** @type {Set<Task>} */
const tasks = new Set();
/** @type {Set<() => void>} */
const endings = new Set();
let budget = BUDGET;
let frame = 0;
let timer = 0;

/** Does a task in the next frames; once, if it waits already. @param {Task} task */
export function paint(task) {
  tasks.add(task);
  schedule();
}

/** Calls a function once at the end of the next frame's work, for instance to measure the layout,
 * which is then computed once for all. @param {() => void} ending */
export function afterPainting(ending) {
  endings.add(ending);
  schedule();
}

function schedule() {
  if (timer) return;
  if (!document.hidden) frame = requestAnimationFrame(run);
  timer = setTimeout(run, document.hidden ? 0 : PATIENCE);
}

function run() {
  cancelAnimationFrame(frame);
  clearTimeout(timer);
  frame = timer = 0;
  const begun = performance.now();
  const end = begun + (document.hidden ? HIDDEN_BUDGET : budget);
  const waiting = [...tasks];
  for (const [index, task] of waiting.entries()) {
    if (index > 0 && performance.now() > end) break; // they are the first in the next frame
    // Each gets its share of the time, at least a little; who needs less leaves more to the others.
    const left = Math.max(1, end - performance.now());
    const until = performance.now() + left / (waiting.length - index);
    tasks.delete(task); // before it runs, since it may ask for itself again
    if (!guarded(() => task(() => performance.now() < until), true)) tasks.add(task);
  }
  const last = [...endings];
  endings.clear();
  for (const ending of last) guarded(ending, undefined);
  // The endings have waited for the layout, so it is known what the frame costs.
  const isMuch = performance.now() - begun > SMOOTH;
  budget = isMuch ? Math.max(LEAST, budget / 2) : Math.min(BUDGET, budget + 1);
  if (tasks.size || endings.size) schedule();
}

/** Calls a function. An error is reported, and does not stop other work.
 * @template Result @param {() => Result} work @param {Result} otherwise */
function guarded(work, otherwise) {
  try {
    return work();
  } catch (error) {
    reportError(error);
    return otherwise;
  }
}

const NEAR = 24; // pixels from the end at which following starts again

/** Keeps a scroll area at its end while it grows, unless a user has scrolled away. */
export class TailFollower {
  /** @param {HTMLElement} element the scroll area */
  constructor(element) {
    this.#element = element;
    element.addEventListener("scroll", () => this.#scrolled(), { passive: true });
  }

  isFollowing = true;
  #element;
  #top = 0;

  /** Scrolls to the new end, at the end of the frame's work, while the end is followed. */
  grown() {
    if (this.isFollowing) afterPainting(this.#toEnd);
  }

  #toEnd = () => {
    if (!this.isFollowing) return;
    this.#element.scrollTop = this.#element.scrollHeight;
    this.#top = this.#element.scrollTop;
  };

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.#element;
    const rest = scrollHeight - clientHeight - scrollTop;
    // A pixel up is enough to stop: the first step of a smooth scroll is not larger.
    if (scrollTop < this.#top - 0.5) this.isFollowing = rest < 1;
    else if (scrollTop > this.#top) this.isFollowing ||= rest < NEAR;
    this.#top = scrollTop;
  }
}

// A long list in chunks. The layout skips those that are out of sight, so adding an element takes
// the same time, however long the list is. After the first ones, chunks are in volumes, which are
// skipped as well: otherwise very many chunks would take time.
//
// The chunk that grows and the one before it are always laid out: they may be in sight, and content
// would move if the layout began to skip it. Volumes may be skipped from the start.

const MOST = 50; // elements of a chunk, and chunks of a volume

/** @type {IntersectionObserver | undefined} */
let observer;

/** Lets the layout skip a chunk once it is out of sight. If that began while it is visible,
 * browsers would count it as a shift of the layout. @param {Element} chunk */
function skipWhenOut(chunk) {
  observer ??= new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) continue;
      observer?.unobserve(target);
      target.classList.add("full");
    }
  });
  observer.observe(chunk);
}

export class Chunks {
  /** @param {HTMLElement} element the list
   * @param {(chunk: HTMLElement) => number} height how many lines a chunk takes, about
   * @param {boolean} [hasVolumes] from the start; most lists are short, and need none */
  constructor(element, height, hasVolumes = false) {
    this.#element = element;
    this.#height = height;
    this.#name = hasVolumes ? "volume" : "volume full";
    this.#volume = hasVolumes ? this.#addVolume() : element;
    this.last = this.#add();
  }

  #element;
  #height;
  #name;
  #volume;
  /** @type {HTMLElement | null} */
  #complete = null; // the chunk before the last
  /** The lines of each chunk that the layout may skip, and their sum for each volume.
   * @type {WeakMap<HTMLElement, number>} */
  #lines = new WeakMap();

  /** Adds an element at the end, in a further chunk if the last one is full. Returns the chunk that
   * the layout may skip from now on, or null.
   * @param {Element} child @param {boolean} [isFull] although it has few elements */
  append(child, isFull = false) {
    const closed = isFull || this.last.childElementCount >= MOST ? this.#begin() : null;
    this.last.append(child);
    return closed;
  }

  #begin() {
    const closed = this.#complete;
    if (closed !== null) this.#close(closed);
    if (this.#volume.childElementCount >= MOST) {
      if (this.#volume !== this.#element) skipWhenOut(this.#volume);
      this.#volume = this.#addVolume();
    }
    this.#complete = this.last;
    this.last = this.#add();
    return closed;
  }

  /** Moves the first elements of a chunk that has become too large into chunks of their own.
   * @param {HTMLElement} chunk @param {Element[]} elements */
  cut(chunk, elements) {
    for (let at = 0; at < elements.length; at += MOST) {
      const part = make("div", { class: "chunk" });
      part.append(...elements.slice(at, at + MOST));
      chunk.before(part);
      this.#close(part);
    }
    if (chunk !== this.last && chunk !== this.#complete) this.#close(chunk);
  }

  #addVolume() {
    const volume = make("div", { class: this.#name });
    this.#element.append(volume);
    return volume;
  }

  #add() {
    const chunk = make("div", { class: "chunk" });
    this.#volume.append(chunk);
    return chunk;
  }

  /** Lets the layout skip a chunk while it is out of sight, with an estimate of its height.
   * @param {HTMLElement} chunk */
  #close(chunk) {
    skipWhenOut(chunk);
    const more = this.#height(chunk) - (this.#lines.get(chunk) ?? 0);
    this.#heighten(chunk, more);
    const volume = chunk.parentElement;
    if (volume !== null && volume !== this.#element) this.#heighten(volume, more);
  }

  /** @param {HTMLElement} element @param {number} more lines */
  #heighten(element, more) {
    const lines = (this.#lines.get(element) ?? 0) + more;
    this.#lines.set(element, lines);
    // Not by a property of our own: those are inherited, and all that is in it would be looked at.
    element.style.setProperty("contain-intrinsic-height", `auto ${1.5 * lines}em`);
  }
}

const HIGH = 150; // lines at which a chunk of blocks is full too
const WIDTH = 80; // characters of a line, about

/** Blocks of a text or of a conversation in chunks, which are in volumes from the start. */
export class BlockChunks extends Chunks {
  /** @param {HTMLElement} element that holds them */
  constructor(element) {
    super(element, (chunk) => this.#lines.get(chunk) ?? 0, true);
  }

  /** @type {WeakMap<HTMLElement, number>} */
  #lines = new WeakMap();

  /** @override @param {Element} child */
  append(child) {
    return super.append(child, (this.#lines.get(this.last) ?? 0) >= HIGH);
  }

  /** Adds to the estimated height of the last chunk. @param {number} lines */
  weigh(lines) {
    this.#lines.set(this.last, (this.#lines.get(this.last) ?? 0) + lines);
  }
}

/** Estimates how many lines a text takes. @param {string} text without newlines */
export function linesOf(text) {
  return Math.ceil(text.length / WIDTH);
}

/** Returns a fixed part of the page, by its ID in index.html. @template {HTMLElement} Kind
 * @param {string} id @param {{ new (): Kind }} kind @returns {Kind} */
export function part(id, kind) {
  const element = document.getElementById(id);
  if (!(element instanceof kind)) throw new Error(`the page has no ${id}`);
  return element;
}

// Small values that are kept in the browser, if it allows that.

/** @typedef {"localStorage" | "sessionStorage"} Where */

/** @param {Where} where for good, or as long as the tab is open @param {string} key
 * @param {string} value "" is none */
export function keep(where, key, value) {
  try {
    if (value === "") window[where].removeItem(key);
    else window[where].setItem(key, value);
  } catch {
    // Storage is off, or full.
  }
}

/** @param {Where} where @param {string} key @returns {string} */
export function kept(where, key) {
  try {
    return window[where].getItem(key) ?? "";
  } catch {
    return "";
  }
}

// The words of the page for the status of a run, and for what went wrong.

/** @type {Record<string, string>} */
const STATUSES = {
  running: "Running", paused: "Needs approval", completed: "Done", failed: "Failed",
  stopped: "Stopped", disconnected: "Disconnected",
};

/** @param {string} status */
export function statusWords(status) {
  return STATUSES[status] ?? "";
}

/** @param {string} status */
export function isRunOver(status) {
  return status === "completed" || status === "failed" || status === "stopped";
}

/** @param {unknown} problem */
export function problemWords(problem) {
  const words = problem instanceof Error ? problem.message : String(problem);
  return sentence(words || "Something went wrong. Reload the page, or check the server log.");
}

/** Returns whether the server does not have what was asked for. @param {unknown} problem */
export function isMissing(problem) {
  return problem instanceof ServerProblem && (problem.status === 404 || problem.status === 410);
}

/** @param {string} words */
export function sentence(words) {
  const [first = ""] = words;
  const begun = first.toUpperCase() + words.slice(first.length);
  return /[.!?…]$/.test(begun) ? begun : `${begun}.`;
}

/** @typedef {Pick<Client, "log">} LogClient */

const SLICE = 8; // milliseconds

/** Reads a log to what is now its end, in slices, so that the page stays responsive.
 * @param {LogClient} client @param {string} runId
 * @param {(frame: EventFrame) => void} take @param {() => boolean} isWanted
 * @returns {Promise<boolean>} whether it was read to its end */
export async function readLog(client, runId, take, isWanted) {
  let until = performance.now() + SLICE;
  for await (const frame of client.log(runId)) {
    if (!isWanted()) return false;
    take(frame);
    if (performance.now() < until) continue;
    await new Promise((resolve) => setTimeout(resolve)); // others have their turn
    until = performance.now() + SLICE;
  }
  return isWanted();
}
