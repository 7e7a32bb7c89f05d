// Arguments made by hand, for the tests of what shows them: `window.show(name, value)` shows whole
// ones, `window.begin(name)` begins a call that `write` and `end` go on with.

import { ArgumentsView } from "../static/tool-call.js";
import {
  CodeView, DiffView, highlighterFor, languageNamed, languageOfFile, lineDiff, RowCutter,
  StreamingDiff,
} from "../static/code.js";
import { sheet } from "../static/tool-call.js";
import * as visible from "../static/dom.js";
import { make } from "../static/dom.js";

const host = document.createElement("div");
host.setAttribute("open", ""); // as an open <tool-call>
const shadow = host.attachShadow({ mode: "open" });
shadow.adoptedStyleSheets = [sheet];
document.querySelector("main").append(host);

function kindOf(value) {
  if (value === null) return "null";
  if (typeof value === "bigint") return "number";
  return Array.isArray(value) ? "array" : typeof value;
}

/** Make the tree of a value, settled. */
function tree(value, key = null) {
  const children =
    value !== null && typeof value === "object"
      ? Object.entries(value).map(([name, inner]) =>
          tree(inner, Array.isArray(value) ? Number(name) : name),
        )
      : [];
  const text = typeof value === "string" ? value : "";
  return { key, kind: kindOf(value), text, value, isDone: true, children };
}

function place(view) {
  shadow.append(view.element);
  return view;
}

/** Begin a call of which nothing is written. */
window.begin = (name) => {
  const root = { key: null, kind: null, text: "", value: undefined, isDone: false, children: [] };
  const call = { name, root, verdict: null, isLost: false };
  window.call = call;
  window.view = place(new ArgumentsView(call));
  window.view.mode = "live";
  return call;
};

/** Show a call that is whole: all of it, or as one that is over. */
window.show = (name, value, mode = "whole") => {
  window.call = { name, root: tree(value), verdict: "complete", isLost: false };
  window.view = place(new ArgumentsView(window.call));
  window.view.mode = mode;
};

/** Go to a place in the arguments; what is not there begins. */
function reach(path) {
  let argument = window.call.root;
  for (const key of path) {
    argument.kind ??= typeof key === "number" ? "array" : "object";
    const isNext = key === argument.children.length;
    let child = isNext ? undefined : argument.children.findLast((one) => one.key === key);
    if (!child) {
      child = { key, kind: null, text: "", value: undefined, isDone: false, children: [] };
      argument.children.push(child);
    }
    argument = child;
  }
  return argument;
}

/** Write a piece of a string. */
window.write = (path, text) => {
  const argument = reach(path);
  argument.kind = "string";
  argument.text += text;
  window.view.refresh();
};

/** Settle a value. */
window.settle = (path, value) => {
  const argument = reach(path);
  Object.assign(argument, { ...tree(value), key: argument.key });
  window.view.refresh();
};

/** Say that a string, or what is in an object or an array, is complete. */
window.end = (path = []) => {
  const argument = reach(path);
  argument.isDone = true;
  if (argument.kind === "string") argument.value = argument.text;
  if (path.length === 0) {
    window.call.verdict = "complete";
    window.view.mode = "whole";
  }
  window.view.refresh();
};

/** Wait until all that was asked for is painted. */
window.painted = async () => {
  for (let frame = 0; frame < 3; frame += 1) {
    await new Promise((resolve) => requestAnimationFrame(resolve));
  }
};

/** Rows that are shown: their text, and whether each is of a kind. */
window.rows = (selector = ".row") =>
  [...shadow.querySelectorAll(selector)].map((row) => row.textContent.replace(/\n$/, ""));

/** Cut a text into tokens, whole or in its lines. */
window.tokens = (language, text) => {
  const highlighter = highlighterFor(language);
  const cutter = new RowCutter();
  cutter.grow(text + "\n");
  const all = [];
  for (let row = cutter.next(); row !== null; row = cutter.next()) {
    const tokens = highlighter.take(row.text, row.endsLine);
    const together = tokens.map((token) => token[1]).join("");
    if (together !== row.text) throw new Error(`tokens are not the row: ${together}`);
    all.push(...tokens.filter(([kind]) => kind !== null));
  }
  return all;
};

/** Feed an arguments view at a steady rate, and give the longest tasks of the meantime. */
window.race = async (feed, milliseconds) => {
  const long = [];
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) long.push(Math.round(entry.duration));
  });
  observer.observe({ type: "longtask" });
  const frames = [];
  let last = performance.now();
  let goesOn = true;
  const tick = (now) => {
    frames.push(now - last);
    last = now;
    if (goesOn) requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
  const begun = performance.now();
  let step = 0;
  for (let more = true; more; ) {
    await new Promise((resolve) => setTimeout(resolve, 4));
    const due = (performance.now() - begun) / 5; // two hundred a second
    while (more && step < due) more = feed(step++);
    if (performance.now() - begun > milliseconds) more = false;
  }
  await new Promise((resolve) => setTimeout(resolve, 200));
  goesOn = false;
  observer.disconnect();
  frames.sort((one, other) => one - other);
  return { long, steps: step, slowest: frames.at(-1), usual: frames[frames.length >> 1] };
};

Object.assign(window, {
  ArgumentsView, CodeView, DiffView, lineDiff, StreamingDiff, visible, make, shadow, place,
  reach, tree, languageNamed, languageOfFile, isReady: true,
});
