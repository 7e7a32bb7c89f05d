import { parseJson, toJson } from "./argstream.js";
import {
  codeTexts, CodeView, DiffView, fill, languageNamed, languageOfFile, LineCount, lineDiff, splitLines,
} from "./code.js";
import {
  afterPainting, attachMenu, button, Chunks, clock, countOf, durationWords, inOrder, make, original,
  paint, pathWords, secondsInState, secondsLeft, setChildren, setInOrder, setText, TailFollower,
  visible, visibleLine, warningsAbout, wasInState,
} from "./dom.js";
/** @import { View } from "./code.js" */
/** @import { Call } from "./argstream.js" */
/** @import {
 *   ApprovalRequested, Decision, JsonObject, JsonValue, ShownState, Deciding, Reading, Change,
 *   ShownArgument as Argument, EditArguments, Surroundings, Shape, Slot, Mode
 * } from "./types.js" */

// <tool-call>: one tool call, from the first character of its arguments to its result.
//
//   import "./static/tool-call.js";
//   const element = document.createElement("tool-call");
//   element.call = call; // of argstream.js; call element.refresh() after it has changed
//   element.addEventListener("decision", (event) =>
//     event.respondWith(client.decide(runId, event.decisions)));
//
// Properties and attributes: `open`, `readonly` (no decisions), `stale` (the connection is lost:
// clocks stop), `labels` (texts by their names in `texts` below; JSON as an attribute).
// Events: `decision`, and `toggle` when a user opens or closes it. Neither bubbles.
// Slots: the default one for what a sub-agent does, `arguments` and `result` for custom views. The
// arguments of a call that needs approval are shown exactly, even if a custom view is given.
// Parts: `header`, `code`, `approval`. Colours and fonts: custom properties `--argstream-…`.
//
// The element sends nothing by itself, and nothing that it is given becomes markup.

/** The texts of the element; `labels` replaces them. */
const texts = {
  ...codeTexts,
  writing: "Writing…",
  ready: "Ready",
  pending: "Needs approval",
  approving: "Approving…",
  denying: "Denying…",
  approved: "Approved",
  running: "Running",
  done: "Done",
  failed: "Failed",
  denied: "Denied by you",
  withdrawn: "No longer needed",
  expired: "Approval expired",
  blocked: "Blocked by policy",
  invalid: "Invalid arguments",
  malformed: "Invalid JSON",
  stopped: "Stopped",
  incomplete: "Incomplete",
  retried: "Retried",
  stale: "Disconnected",
  writingArgument: "Writing {argument}…",
  waiting: "Ready. Waiting for the other calls.",
  approvedEdits: "Approved with your edits",
  stoppedAt: "Stopped while writing {argument}",
  endedEarly: "The model's reply ended early",
  interrupted: "The model's reply was interrupted and retried.",
  reconnecting: "Reconnecting…",
  at: "{message} in {place}",
  innerPending: "{calls}, {count} pending",
  arguments: "Arguments",
  noArguments: "No arguments",
  emptyName: "(empty name)",
  showMore: "Show {count} more",
  result: "Result",
  error: "Error",
  output: "Output",
  raw: "Raw",
  edits: "Your edits",
  approval: "Approval",
  approve: "Approve",
  approveMore: "More ways to approve",
  approveOnce: "Approve once",
  approveTool: "Always allow {tool} in this conversation",
  approveRule: "Always allow calls matching “{rule}”",
  approveEdits: "Approve with edits",
  edit: "Edit",
  deny: "Deny",
  cancel: "Cancel",
  keys: "A approve · E edit · D deny",
  keysElsewhere: "",
  reason: "Tell the agent why (optional)",
  expiresIn: "Expires in {time}",
  timeOver: "Expired",
  rendering: "Rendering… {percent} %",
  scroll: "{size} · scroll to see all",
  tooEarly: "Not yet: review the call, then click again.",
  nothingToApprove: "No changes to approve. Edit a field or cancel.",
  offline: "Disconnected. You can decide when the connection is back.",
  atLeast: "at least {time}",
  moved: "The button just moved. Click again to confirm.",
  noListener: "This page can't send decisions.",
  exact: "Exact arguments for approval:",
  requestedAgain: "The agent sent a new version of this call.",
  alreadyDecided: "Already decided: {state}.",
  notSent: "{words} Your edits were not sent.",
  dismiss: "Dismiss",
  editor: "Edit arguments",
  asJson: "Edit as JSON",
  asForm: "Edit as form",
  json: "Arguments as JSON",
  changed: "{count} changed",
  noChanges: "No changes yet",
  fixFirst: "Fix the marked fields first.",
  changes: "Changes",
  changesTo: "Changes to {argument}",
  unchangedCall: "No changes",
  notCompared: "Fields with errors are not compared.",
  andMore: "and {count} more",
  new: "new",
  removed: "removed",
  escapes: "⟦…⟧ marks an invisible character",
  invalidJson: "Invalid JSON: {message}",
  notAnObject: "Must be a JSON object: { … }",
  duplicate: "Duplicate key: {key}",
};
/** @typedef {typeof texts} Texts */

const MOVING = 100; // milliseconds between two updates of a clock that runs
const WAITING = 1000; // and of the time that is left to decide
const LIVE_LINES = 20; // lines from which a text that grows is scrolled in its box

/** A user has decided on a call. It does not bubble, because calls contain calls. */
export class DecisionEvent extends Event {
  /** The result of sending the decision; null until `respondWith` is called.
   * @type {Promise<unknown> | null} */
  answer = null;

  /** @param {Record<string, Decision>} decisions as `Client.decide` takes them */
  constructor(decisions) {
    super("decision");
    this.decisions = decisions;
  }

  /** Sets the result of sending the decision. The element is busy until the promise settles, and
   * shows the message if it is rejected. @param {Promise<unknown>} answer */
  respondWith(answer) {
    if (this.answer) throw new DOMException("this call was already decided", "InvalidStateError");
    this.answer = Promise.resolve(answer);
  }
}

/** The element. */
export class ToolCallElement extends HTMLElement {
  static observedAttributes = ["open", "readonly", "stale", "labels"];

  /** @type {Call | null} */ #call = null;
  /** @type {Texts} */ #texts = texts;
  /** @type {Partial<Texts>} */ #labels = {};
  #head = new Header();
  /** Holds the blocks of a sub-agent. They stay in the light DOM, so the page can style them. */
  #slot = make("slot");
  #inner = make("div", { class: "inner", hidden: true }, this.#slot);
  /** The call whose sub-agent has made this one. @type {ToolCallElement | null} */
  #outer = null;
  #body = make("div", { class: "body", id: "body", hidden: true });
  #card = make("div", { class: "call", role: "group", tabindex: -1 });
  #given = make("div", { class: "given" });
  #others = make("div", { class: "panel" }); // what is asked about, if not what is given
  #custom = make("slot", { name: "arguments" });
  #result = make("slot", { name: "result" });
  /** @type {ArgumentsView | null} */ #view = null;
  /** @type {Results | null} */ #results = null;
  /** @type {HTMLElement} */ #strip = make("div", { class: "strip", hidden: true });
  /** @type {Approval | null} */ #approval = null;
  /** @type {CodeView | null} */ #exact = null;
  /** @type {Editor | null} */ #editor = null;
  #timer = 0;

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open", delegatesFocus: true });
    root.adoptedStyleSheets = [sheet];
    this.#card.append(this.#head.element, this.#head.second, this.#body);
    root.append(this.#card);
    this.#head.element.addEventListener("click", () => {
      this.open = !this.open;
      this.dispatchEvent(new Event("toggle"));
    });
    this.#card.addEventListener("keydown", (event) => this.#pressed(event));
    for (const slot of [this.#slot, this.#custom, this.#result]) {
      slot.addEventListener("slotchange", () => this.refresh());
    }
  }

  /** The call that is shown. */
  get call() {
    return this.#call;
  }

  set call(call) {
    if (call === this.#call) return;
    this.#call = call;
    this.#reset();
  }

  /** Whether it is expanded. */
  get open() {
    return this.hasAttribute("open");
  }

  set open(open) {
    this.toggleAttribute("open", Boolean(open));
  }

  /** Whether users cannot decide here. */
  get readonly() {
    return this.hasAttribute("readonly");
  }

  set readonly(readonly) {
    this.toggleAttribute("readonly", Boolean(readonly));
  }

  /** Whether the connection is lost, so that what is shown may be out of date. */
  get stale() {
    return this.hasAttribute("stale");
  }

  set stale(stale) {
    this.toggleAttribute("stale", Boolean(stale));
  }

  /** Texts that replace those of the element. */
  get labels() {
    return this.#labels;
  }

  set labels(labels) {
    this.#labels = { ...labels };
    this.#texts = { ...texts, ...this.#labels };
    this.#reset();
  }

  /** Whether arguments were edited, and the edits neither sent nor cancelled. */
  get hasUnsentEdit() {
    return this.#approval?.unsent?.isChanged ?? false;
  }

  /** Whether the call needs approval, the card is open, all of it is painted, and `approve` may be
   * called. */
  get isReadyToApprove() {
    const [call, asked] = [this.#call, this.#approval];
    if (!asked || call?.state !== "pending" || !this.open || this.stale) return false;
    return call.request?.digest === asked.request.digest && asked.canApprove;
  }

  /** Approves the call as it is, for a page that lets users approve several calls at once. Call it
   * only from a handler of a user's click. Returns false if the call is not ready. */
  approve() {
    if (!this.isReadyToApprove) return false;
    this.#approval?.approve();
    return true;
  }

  /** Shows in the next frames what has changed in the call. */
  refresh() {
    if (!this.#call) return;
    const { state } = this.#call;
    if (this.getAttribute("state") !== state) {
      this.setAttribute("state", state);
      this.#refreshOuter();
    }
    // A card that was seen under way keeps room for its strip, so that nothing below it moves.
    if (!isOver(state)) this.#card.classList.add("was-live");
    if (this.isConnected) paint(this.#update);
  }

  /** Focuses the approval of a call that needs one, where the keys A, E and D work; else the
   * header.
   * @override @param {FocusOptions} [options] */
  focus(options) {
    (this.#approval && this.open ? this.#approval : this.#head).element.focus(options);
  }

  connectedCallback() {
    const own = /** @type {any} */ (this);
    for (const name of ["call", "open", "readonly", "stale", "labels"]) {
      // A property that was set before the element was defined hides that of the class.
      if (!Object.hasOwn(own, name)) continue;
      const given = own[name];
      delete own[name];
      own[name] = given;
    }
    const outer = this.parentElement?.closest("tool-call") ?? null;
    this.#outer = /** @type {ToolCallElement | null} */ (outer);
    this.#refreshOuter();
    this.refresh();
  }

  disconnectedCallback() {
    clearTimeout(this.#timer);
    this.#refreshOuter();
  }

  /** Lets the calls around this one count again. */
  #refreshOuter() {
    for (let at = this.#outer; at !== null; at = at.#outer) at.refresh();
  }

  /** @param {string} name @param {string | null} _before @param {string | null} value */
  attributeChangedCallback(name, _before, value) {
    if (name === "labels") this.labels = value === null ? {} : JSON.parse(value);
    this.#body.hidden = !this.open;
    this.#head.element.ariaExpanded = String(this.open); // now, since it may be pressed again
    this.refresh();
  }

  #reset() {
    this.#card.classList.remove("was-live");
    this.#card.classList.add("unpainted");
    this.#view = this.#approval = this.#results = null;
    this.#place(null);
    this.#showExact(null);
    this.#body.replaceChildren();
    if (this.#call) this.#showHead(this.#call); // so that no card is ever without a name
    this.refresh();
  }

  #update = () => {
    if (this.#call && this.isConnected) {
      if (this.open) this.#updateBody(this.#call);
      this.#tick();
    }
    return true;
  };

  /** Shows what depends on the clock, and does it again for as long as that changes. */
  #tick = () => {
    const call = this.#call;
    clearTimeout(this.#timer);
    if (!call || !this.isConnected) return true;
    this.#showHead(call);
    this.#approval?.refresh();
    const isMoving = call.state === "writing" || call.state === "running";
    if (this.stale || (!isMoving && !this.#approval?.request.expires_at)) return true;
    this.#timer = setTimeout(() => paint(this.#tick), isMoving ? MOVING : WAITING);
    return true;
  };

  /** @param {Call} call */
  #showHead(call) {
    const isStale = this.stale && !isOver(call.state);
    const state = isStale ? "stale" : this.#approval?.sending ?? shownState(call);
    const sizes = [this.#countInner(), sizeOfCall(call)].filter(Boolean);
    this.#head.update(call, state, this.#texts, this.open, sizes.join(" · "));
    const label = `${titleOf(call, true)}, ${lowered(this.#texts[state])}`;
    if (this.#card.ariaLabel !== label) this.#card.ariaLabel = label;
    if (this.#card.dataset.state !== state) this.#card.dataset.state = state;
  }

  /** Returns how many calls the sub-agent has made, and how many of them need approval. */
  #countInner() {
    this.#inner.hidden = !this.#slot.assignedNodes().some(
      (node) => node instanceof Element || node.textContent?.trim());
    const found = this.querySelectorAll("tool-call");
    const inner = [.../** @type {NodeListOf<ToolCallElement>} */ (found)];
    const count = inner.filter((call) => call.#outer === this).length;
    const pending = inner.filter((call) => call.getAttribute("state") === "pending").length;
    const calls = count ? countOf(count, "call") : "";
    if (!calls || !pending) return calls;
    return fill(this.#texts.innerPending, { calls, count: String(pending) });
  }

  /** @param {Call} call */
  #updateBody(call) {
    if (!this.#view || !this.#results) {
      this.#view = new ArgumentsView(call, { texts: this.#texts, onPainted: this.#painted });
      this.#results = new Results(call, this.#texts);
      this.#given.replaceChildren(this.#view.element);
      this.#result.replaceChildren(this.#results.element);
      this.#strip = this.#results.strip;
      this.#body.replaceChildren(
        this.#custom, this.#given, this.#others, this.#inner, this.#strip, this.#result,
      );
    }
    const isPending = call.state === "pending";
    const isUnderWay = ["writing", "written", "approved"].includes(call.state);
    this.#view.mode = isPending ? "whole" : isUnderWay ? "live" : "preview";
    this.#view.refresh();
    this.#results.refresh();
    this.#result.hidden = this.#result.assignedElements().length > 0 && !isOver(call.state);
    const hasCustom = this.#custom.assignedElements().length > 0;
    this.#given.hidden = this.#editor !== null || (hasCustom && !isPending);
    const request = isPending && !this.readonly ? call.request : null;
    const asked = this.#approval;
    if (asked && asked.request.digest !== request?.digest) {
      // While a decision is sent, it is not known yet whether this is its effect.
      if (asked.sending) return;
      this.#endApproval(asked, call);
    }
    if (!request) this.#showStrip(call, this.#results);
    else if (!this.#approval) {
      this.#showExact(request);
      this.#approval = new Approval(this, call, request, this.#texts, {
        place: (editor) => this.#place(editor),
        progress: () => {
          const progress = this.#view?.progress ?? 0;
          return this.#exact?.isPainted === false ? Math.min(0.99, progress) : progress;
        },
        size: () => {
          const isHigh = this.#card.getBoundingClientRect().height > innerHeight;
          const size = isHigh ? sizeOfCall(call) : "";
          return size && fill(this.#texts.scroll, { size });
        },
      });
      this.#replaceStrip(this.#approval.element);
    }
  }

  /** @param {Call} call @param {Results} results */
  #showStrip(call, results) {
    const words = this.stale && !isOver(call.state)
      ? this.#texts.reconnecting : stripWords(call, sizeOfCall(call), this.#texts);
    const isReplaced = this.#result.assignedElements().length > 0 && words === shortResult(call);
    const mayHide = isOver(call.state) && !this.#card.classList.contains("was-live");
    results.say(isReplaced ? "" : words, mayHide);
    // Below a text that grows, the strip would move with each line. The header says the same.
    const isGrowing = call.state === "writing" && measured(call.root).lines <= LIVE_LINES;
    this.#card.classList.toggle("growing", isGrowing);
    this.#replaceStrip(results.strip);
  }

  #painted = () => {
    this.#card.classList.remove("unpainted");
    this.#approval?.refresh();
  };

  /** What is approved must be what is shown. The arguments in the card are those that the model
   * wrote; if the request has others, these are shown too.
   * @param {ApprovalRequested | null} request */
  #showExact(request) {
    this.#exact = null;
    this.#others.replaceChildren();
    const text = toJson(request?.arguments, 2);
    if (!request || text === toJson(this.#call?.arguments, 2)) return;
    const { exact: title } = this.#texts;
    this.#exact = new CodeView({
      label: title, title, language: "json", texts: this.#texts,
      onPainting: ({ isPainted }) => isPainted && this.#painted(),
    });
    this.#exact.show(text);
    this.#others.append(this.#exact.element);
  }

  /** Removes an approval that is decided, here or elsewhere. @param {Approval} asked
   * @param {Call} call */
  #endApproval(asked, call) {
    const editor = asked.unsent;
    this.#approval = null;
    this.#showExact(null);
    if (!editor) {
      this.#place(null);
      return;
    }
    const { requestedAgain, alreadyDecided } = this.#texts;
    const shown = shownState(call);
    const wasApproved = shown === "running" || shown === "done" || shown === "failed";
    const state = lowered(this.#texts[wasApproved ? "approved" : shown]);
    this.#given.hidden = false;
    const words = call.state === "pending" ? requestedAgain : fill(alreadyDecided, { state });
    editor.retire(words, () => this.#place(null));
  }

  /** @param {HTMLElement} strip */
  #replaceStrip(strip) {
    if (strip === this.#strip) return;
    this.#keepFocus(this.#strip, () => {
      this.#strip.replaceWith(strip);
      this.#strip = strip;
    });
  }

  /** Shows an editor in place of the arguments, or none. @param {Editor | null} editor */
  #place(editor) {
    const before = this.#editor;
    this.#editor = editor;
    if (before) this.#keepFocus(before.element, () => before.element.remove());
    this.#given.hidden = editor !== null;
    if (editor) this.#given.after(editor.element);
  }

  /** Runs what removes an element. If that has the focus, the header gets it.
   * @param {Element} element @param {() => void} remove */
  #keepFocus(element, remove) {
    const hadFocus = element.contains(this.shadowRoot?.activeElement ?? null);
    remove();
    if (hadFocus) this.#head.element.focus({ preventScroll: true });
  }

  /** The keys of an approval, while the focus is in the card and not in a text field.
   * @param {KeyboardEvent} event */
  #pressed(event) {
    const [target] = event.composedPath();
    if (!(target instanceof Element) || target.getRootNode() !== this.shadowRoot) return;
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.isComposing) return;
    if (target.matches("input, textarea") || !this.open) return;
    if (this.#approval?.takeKey(event.key.toLowerCase())) event.preventDefault();
  }
}

// States

const over = new Set(["completed", "failed", "denied", "invalid", "lost"]);

/** Returns whether nothing more happens to a call in this state. @param {string} state */
export function isOver(state) {
  return over.has(state);
}

/** @type {Record<string, ShownState>} */
const names = {
  written: "ready", completed: "done", lost: "retried", truncated: "incomplete", aborted: "stopped",
  malformed: "malformed", rejected: "invalid",
};

/** Returns the state as users know it: the name of its text. @param {Call} call
 * @returns {ShownState} */
function shownState({ state, verdict, decision, error }) {
  if (state === "invalid") {
    return error?.reason === "denied" ? "blocked" : (names[verdict ?? ""] ?? "invalid");
  }
  if (state === "denied") {
    const how = decision?.decision;
    return how === "expired" || how === "withdrawn" ? how : "denied";
  }
  return names[state] ?? /** @type {ShownState} */ (state);
}

/** Returns the label of a call's state. @param {Call} call */
export function stateLabel(call) {
  return texts[shownState(call)];
}

/** @param {string} words */
function lowered(words) {
  return words.slice(0, 1).toLowerCase() + words.slice(1);
}

// The header: one row, and a second one below it while the card is collapsed.

const SVG = "http://www.w3.org/2000/svg";
const PATHS_OF_ICONS = {
  file: "M4 1.5h5l3.5 3.5v9.5H4zM9 1.5V5h3.5",
  terminal: "M2 3h12v10H2zM4.5 6l2 2-2 2M8.5 10h3",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.5 10.5l3.5 3.5",
  globe: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM2 8h12M8 2c4 4 4 8 0 12M8 2c-4 4-4 8 0 12",
  wrench:
    "M13.5 4.5a3.5 3.5 0 0 1-4.7 3.9L4.6 13 3 11.4l4.4-4.3A3.5 3.5 0 0 1 11.5 2.5L9.5 4.5l2 2z",
  check: "M3 8.5l3.5 3.5L13 4.5",
  cross: "M4 4l8 8M12 4l-8 8",
  shield: "M8 1.5l5 2v4c0 3.5-2 5.5-5 7-3-1.5-5-3.5-5-7v-4zM6 6l4 4M10 6l-4 4",
  alert: "M8 2l6.5 11.5h-13zM8 6.5v3M8 11.5v.5",
  square: "M4 4h8v8H4z",
  retry: "M13 8a5 5 0 1 1-1.5-3.5M12 1.5v3.5H8.5",
  dot: "M8 5.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5z",
  chevron: "M6 4l4 4-4 4",
};
/** @typedef {keyof typeof PATHS_OF_ICONS} Icon */

/** @type {Partial<Record<ShownState, Icon>>} */
const iconsOfStates = {
  pending: "alert", approving: "alert", denying: "alert", done: "check", failed: "cross",
  denied: "cross", blocked: "shield", invalid: "cross", malformed: "cross", stopped: "square",
  incomplete: "alert", retried: "retry",
};

/** @param {Icon} name @param {string} [more] a class */
function icon(name, more = "") {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", `icon ${more}`.trim());
  svg.setAttribute("aria-hidden", "true");
  svg.append(document.createElementNS(SVG, "path"));
  return setIcon(svg, name);
}

/** @param {SVGElement} svg @param {Icon} name */
function setIcon(svg, name) {
  const [path, line] = [svg.firstElementChild, PATHS_OF_ICONS[name]];
  if (path?.getAttribute("d") !== line) path?.setAttribute("d", line);
  return svg;
}

class Header {
  #kind = icon("wrench", "kind");
  #name = make("span", { class: "name" });
  #primary = make("span", { class: "primary" });
  #size = make("span", { class: "size" });
  #label = make("span", { class: "state" });
  #time = make("span", { class: "time" });
  #sign = icon("dot", "sign");
  second = make("div", { class: "second", hidden: true });

  constructor() {
    const looks = { class: "head", type: "button", part: "header" };
    /** @type {HTMLButtonElement} */
    this.element = make(
      "button", { ...looks, "aria-expanded": "false", "aria-controls": "body" },
      this.#kind, this.#name, this.#primary, this.#size, this.#label, this.#time, this.#sign,
      icon("chevron", "chevron"),
    );
  }

  /** Shows a call as it is now.
   * @param {Call} call @param {ShownState} state @param {Texts} texts @param {boolean} isOpen
   * @param {string} size */
  update(call, state, texts, isOpen, size) {
    const name = visibleLine(call.name);
    setText(this.#name, name);
    if (this.#name.title !== name) this.#name.title = name;
    const primary = primaryOf(call);
    if (this.#primary.title !== primary) {
      this.#primary.title = primary;
      setInOrder(this.#primary, primary);
      setIcon(this.#kind, iconOf(call));
    }
    setText(this.#label, texts[state]);
    setIcon(this.#sign, iconsOfStates[state] ?? "dot");
    setText(this.#size, size);
    const isMoving = call.state === "writing" || call.state === "running";
    if (state !== "stale" || !isMoving) setText(this.#time, timeOf(call, texts));
    // A name that changes ten times a second is not a name.
    this.#size.ariaHidden = this.#time.ariaHidden = isMoving ? "true" : null;
    const words = isOpen ? "" : visibleLine(secondLine(call, texts));
    this.second.hidden = words === "";
    setInOrder(this.second, words);
  }
}

/** @param {Call} call @param {Texts} texts */
function timeOf(call, texts) {
  const began = call.executedAt.at(-1) ?? null;
  if (call.state === "writing" || call.state === "running") {
    const time = durationWords(secondsInState(call));
    return wasInState(call) ? fill(texts.atLeast, { time }) : time;
  }
  const took = began === null || call.endedAt === null ? 0 : call.endedAt - began;
  if (took < 0.05) return "";
  return took < 0.9995 ? `${Math.round(took * 1000)} ms` : durationWords(took);
}

/** Returns what a collapsed card shows in its second row. @param {Call} call
 * @param {Texts} texts */
function secondLine(call, texts) {
  switch (shownState(call)) {
    case "running": return lastLine(call.output);
    case "failed": return firstLine(textOfResult(call.result));
    case "denied": return call.decision?.reason ?? "";
    case "blocked": return errorWords(call, texts);
    default: return "";
  }
}

/** Returns what the strip of a call says that needs no decision.
 * @param {Call} call @param {string} size @param {Texts} texts */
function stripWords(call, size, texts) {
  const open = call.root.children.findLast(({ isDone, key }) => !isDone && key !== null);
  const argument = open ? visibleLine(String(open.key)) : "";
  const reason = call.decision?.reason ?? "";
  // The arguments view shows an error below the argument that it is about.
  const isBelow = call.root.children.some(({ key }) => key === call.error?.path?.[0]);
  switch (shownState(call)) {
    case "writing": return argument && `${fill(texts.writingArgument, { argument })} ${size}`;
    case "ready": return texts.waiting;
    case "approved":
      return call.decision?.decision === "edited" ? texts.approvedEdits : texts.approved;
    case "running": return lastLine(call.output) || `${texts.running}…`;
    case "done": return shortResult(call);
    case "stopped": return argument ? fill(texts.stoppedAt, { argument }) : texts.stopped;
    case "incomplete": return texts.endedEarly;
    case "retried": return texts.interrupted;
    case "denied": case "withdrawn": case "expired": return reason;
    case "pending": return call.request?.reason ?? "";
    case "blocked": case "invalid": case "malformed":
      return isBelow ? "" : errorWords(call, texts);
    default: return "";
  }
}

/** Returns a result that is shown as it is, or "". @param {Call} call */
function shortResult({ outcome, result }) {
  if (outcome !== "completed" || result === null) return "";
  const text = textOfResult(result).trim();
  const isShort = text.length <= 400 && text.split("\n").length <= 3;
  return isShort ? text : "";
}

/** Returns why the arguments are not valid, and where. @param {Call} call @param {Texts} texts */
function errorWords({ error }, texts) {
  if (!error) return "";
  const { message } = error;
  const place = pathWords(error.path ?? []);
  return place && !message.includes(place) ? fill(texts.at, { message, place }) : message;
}

const LONGEST = 300; // characters of a line in a header

/** @param {string} text */
function firstLine(text) {
  return text.slice(0, 4 * LONGEST).trimStart().split("\n", 1).join("").slice(0, LONGEST);
}

/** @param {string} text */
function lastLine(text) {
  return (text.slice(-4 * LONGEST).trimEnd().split("\n").at(-1) ?? "").slice(0, LONGEST);
}

/** @param {JsonValue} result */
function textOfResult(result) {
  return typeof result === "string" ? result : toJson(result, 2);
}

// Approval. A decision is about the request as it was shown: it carries the digest of that request,
// whatever the call has become meanwhile. A call can be approved when all of it is painted; denying
// needs no wait. The focus stays where it is, or returns to where it came from.

const NOTE_TIME = 4000; // milliseconds for which the reason of an ignored click is shown

/**
 * What the element does for its approval. `place` shows the editor instead of the arguments.
 * `progress` returns how much of the request is painted, from 0 to 1. `size` returns the size of a
 * request that is higher than the screen, else "".
 * @typedef {{ place: (editor: Editor | null) => void, progress: () => number, size: () => string
 *   }} ApprovalCallbacks
 */

/** The footer of a call that needs approval. */
class Approval {
  #host;
  #call;
  #texts;
  #callbacks;
  #left = make("span", { class: "left" });
  #size = make("span", { class: "note", id: "size" });
  #state = make("span", { class: "note", id: "editing" });
  #note = make("b", { class: "moved", role: "status" });
  #keys = make("span", { class: "keys" });
  #more = make("button", { type: "button", class: "act main more-ways" }, icon("chevron"));
  #ways;
  #menu;
  #no;
  #change;
  #buttons = make("div", { class: "buttons" });
  #row = make("div", { class: "row-below", hidden: true });
  #alert = make("div", { class: "alert", role: "alert" });
  /** @type {DecisiveButton[]} */ #decisive = [];
  /** @type {Editor | null} */ #editor = null;
  /** @type {"no" | "approving" | "denying" | "sent"} */ #busy = "no";
  #isOffline = false;
  #timer = 0;

  /** @param {ToolCallElement} host @param {Call} call
   * @param {ApprovalRequested} request that is decided on
   * @param {Texts} texts @param {ApprovalCallbacks} callbacks */
  constructor(host, call, request, texts, callbacks) {
    this.#host = host;
    this.#call = call;
    this.request = request;
    this.#texts = texts;
    this.#callbacks = callbacks;
    this.#no = button(texts.deny, "no", () => this.#deny());
    this.#change = button(texts.edit, "", () => this.#edit());
    this.#ways = this.#makeWays();
    this.#menu = attachMenu(this.#more, () => this.#ways.map((way) => way.watch()));
    this.#menu.ariaLabel = this.#more.ariaLabel = texts.approveMore;
    this.#keys.append(
      make("span", { class: "inside", text: texts.keys }),
      make("span", { class: "outside", text: texts.keysElsewhere }),
    );
    const reason = make("b", {}, icon("alert"));
    reason.append(...inOrder(visible(request.reason) || texts.pending));
    const said = make(
      "div", { class: "said" },
      reason, this.#left, this.#size, this.#state, this.#note, this.#keys,
    );
    const looks = { class: "strip approval", part: "approval", "aria-label": texts.approval };
    this.element = make(
      "div", { ...looks, role: "group", tabindex: -1 }, said, this.#buttons,
      ...warningsAbout(request.arguments).map((text) => make("div", { class: "warned", text })),
      this.#row, this.#alert, this.#menu,
    );
    this.#offer();
    this.refresh();
  }

  /** The state while a decision is on its way. */
  get sending() {
    return this.#busy === "approving" || this.#busy === "denying" ? this.#busy : null;
  }

  /** The open editor, if its text was not sent. */
  get unsent() {
    return this.#busy === "sent" ? null : this.#editor;
  }

  get canApprove() {
    return this.#busy === "no" && this.#editor === null && this.#isPainted();
  }

  /** Approves the request, with the edits if there are any. @param {string} [always] */
  approve(always = "") {
    const edited = this.#editor?.read();
    if (edited === null) this.#editor?.focusProblem();
    else this.#send("approving", edited ? { arguments: edited } : {}, always);
  }

  /** Shows how much time is left, and how much of the request is painted. */
  refresh() {
    const seconds = secondsLeft(this.#call);
    const { expiresIn, timeOver } = this.#texts;
    if (seconds !== null) {
      const time = clock(Math.ceil(seconds));
      setText(this.#left, seconds > 0 ? fill(expiresIn, { time }) : timeOver);
    }
    if (this.#isPainted()) afterPainting(this.#measure);
    if (this.#host.stale !== this.#isOffline) {
      this.#isOffline = this.#host.stale;
      clearTimeout(this.#timer);
      setText(this.#note, this.#isOffline ? this.#texts.offline : "");
      this.#become(this.#busy);
    }
    for (const one of this.#decisive) one.watch();
  }

  /** Does what a key stands for. Returns false if it stands for nothing. @param {string} key */
  takeKey(key) {
    if (this.#busy !== "no" || this.#menu.matches(":popover-open")) return false;
    if (key === "escape") return this.#back();
    const one = { a: this.#decisive.at(-1)?.element, e: this.#change, d: this.#no }[key];
    if (!one || !this.#row.hidden || this.#editor) return false;
    one.click();
    return true;
  }

  /** Measures the card, and shows the result in the next frame. */
  #measure = () => {
    if (!this.element.isConnected) return;
    const words = this.#editor ? "" : this.#callbacks.size();
    paint(() => {
      if (this.#isPainted()) setText(this.#size, words);
      return true;
    });
  };

  /** Returns whether all is painted, and shows the progress until then if it takes a while. */
  #isPainted() {
    const progress = this.#callbacks.progress();
    if (progress === 1) return true;
    if (secondsInState(this.#call) > 0.5) {
      const percent = String(Math.min(99, Math.floor(100 * progress)));
      setText(this.#size, fill(this.#texts.rendering, { percent }));
    }
    return false;
  }

  /** @param {string} text @param {string} looks @param {() => void} press
   * @param {() => boolean} [mayPress] */
  #decide(text, looks, press, mayPress = () => true) {
    return new DecisiveButton(text, looks, {
      press,
      mayPress: () => this.#busy === "no" && !this.#host.stale && mayPress(),
      refuse: (hasMoved) => this.#busy === "no" && this.#refuse(hasMoved),
    });
  }

  #mayApprove = () => this.#isPainted() && (this.#editor?.canApprove ?? true);

  /** Shows why a click did not count. @param {boolean} hasMoved */
  #refuse(hasMoved) {
    if (this.#host.stale) return; // the note shows that until the connection is back
    const { moved, tooEarly, nothingToApprove, fixFirst } = this.#texts;
    const isWrong = this.#editor?.read() === null;
    const isSame = this.#editor?.isChanged === false;
    clearTimeout(this.#timer);
    this.#note.textContent =
      hasMoved ? moved : isWrong ? fixFirst : isSame ? nothingToApprove : tooEarly;
    this.#timer = setTimeout(() => { this.#note.textContent = ""; }, NOTE_TIME);
  }

  /** Shows the buttons for the request or for the editor. The last one approves and has a menu. */
  #offer() {
    const { approve, approveEdits, cancel } = this.#texts;
    const [words, ...others] = this.#editor
      ? [approveEdits, button(cancel, "", () => this.#back())] : [approve, this.#no, this.#change];
    const main = this.#decide(words, "main", () => this.approve(), this.#mayApprove);
    main.element.dataset.does = "approve";
    main.element.setAttribute("aria-describedby", "editing size");
    this.#decisive = [...this.#ways, main];
    const pair = make("span", { class: "pair" }, main.element, this.#more);
    this.#buttons.replaceChildren(...others, pair);
    this.#buttons.hidden = false;
    this.#row.hidden = true;
    this.#row.replaceChildren();
    this.#keys.hidden = this.#editor !== null;
    this.#tell("");
  }

  #deny() {
    if (this.#busy !== "no") return;
    const { reason: words, deny: text, cancel } = this.#texts;
    const reason = make("input", { type: "text", id: "reason", autocomplete: "off" });
    const deny = () => this.#send("denying", reason.value === "" ? {} : { reason: reason.value });
    reason.addEventListener("keydown", (event) => {
      if (event.isComposing || event.repeat) return;
      if (event.key === "Enter") deny();
      else if (event.key !== "Escape" || !this.#back()) return;
      event.preventDefault();
      event.stopPropagation();
    });
    this.#buttons.hidden = true;
    this.#row.hidden = false;
    this.#keys.hidden = true;
    const sure = this.#decide(text, "no", deny);
    this.#decisive.push(sure);
    const back = button(cancel, "", () => this.#back());
    const both = make("span", { class: "buttons" }, sure.element, back);
    this.#row.replaceChildren(make("label", { for: "reason", text: words }), reason, both);
    this.#tell("");
    reason.focus();
  }

  #edit() {
    if (this.#busy !== "no") return;
    const { name } = this.#call;
    const editor = new Editor(name, this.request.arguments, this.#texts, (words) => {
      this.#state.textContent = words;
      for (const one of this.#decisive) one.restart(); // what it would approve is new
    });
    editor.element.addEventListener("keydown", (event) => {
      // Escape must not discard what was typed.
      if (event.key !== "Escape" || event.isComposing || editor.isChanged) return;
      event.stopPropagation();
      this.#back();
    });
    this.#editor = editor;
    setText(this.#size, ""); // what there was to review is now in the fields
    this.#offer();
    this.#callbacks.place(editor);
    editor.focus();
  }

  /** Leaves the denial or the editor. Returns false if neither is open. */
  #back() {
    const wasEditing = this.#editor !== null;
    if (this.#busy !== "no" || (!wasEditing && this.#row.hidden)) return false;
    if (wasEditing) this.#callbacks.place(null);
    this.#editor = null;
    setText(this.#state, "");
    this.#offer();
    (wasEditing ? this.#change : this.#no).focus();
    return true;
  }

  #makeWays() {
    const { approveOnce, approveTool, approveRule } = this.#texts;
    const tool = visibleLine(this.#call.name);
    const rule = visibleLine(this.request.rule ?? "");
    const ways = { call: approveOnce, conversation: fill(approveTool, { tool }) };
    const all = Object.entries(rule ? { ...ways, rule: fill(approveRule, { rule }) } : ways);
    return all.map(([always, text], at) => {
      const way = this.#decide("", "", () => {
        this.#menu.hidePopover();
        this.approve(always);
      }, this.#mayApprove);
      setInOrder(way.element, text);
      way.element.role = "menuitem";
      way.element.autofocus = at === 0; // when the menu opens
      return way;
    });
  }

  /** Sends a decision. Everything stays as it is until the answer arrives.
   * @param {"approving" | "denying"} busy @param {Pick<Decision, "arguments" | "reason">} more
   * @param {string} [always] */
  async #send(busy, more, always = "") {
    if (this.#busy !== "no") return;
    /** @type {Decision} */
    const decision = {
      decision: busy === "approving" ? "approve" : "deny", digest: this.request.digest, ...more,
    };
    if (always === "conversation" || always === "rule") decision.always = always;
    this.#note.textContent = "";
    // Not by assignment: the model or its provider chooses the ID, which may be "__proto__".
    const event = new DecisionEvent(Object.fromEntries([[this.#call.callId, decision]]));
    this.#host.dispatchEvent(event);
    this.#tell(event.answer ? "" : this.#texts.noListener);
    if (!event.answer) return;
    this.#become(busy);
    this.#host.refresh();
    try {
      await event.answer;
      this.#become("sent");
    } catch (error) {
      this.#become("no");
      this.#tell(error instanceof Error ? error.message : String(error));
    }
    this.#host.refresh();
  }

  /** Disables the buttons while a decision is sent, and while there is no connection.
   * @param {"no" | "approving" | "denying" | "sent"} busy */
  #become(busy) {
    this.#busy = busy;
    this.element.ariaBusy = busy === "no" ? null : "true";
    for (const one of this.element.querySelectorAll("input")) one.readOnly = busy !== "no";
    this.#editor?.hold(busy !== "no");
    const isHeld = busy !== "no" || this.#isOffline;
    // Not `disabled`: the button that was pressed would lose the focus.
    for (const one of this.element.querySelectorAll("button")) {
      one.ariaDisabled = isHeld ? "true" : null;
    }
    for (const one of this.#decisive) one.restart();
  }

  /** @param {string} problem */
  #tell(problem) {
    this.#alert.textContent = visible(problem);
  }
}

// A button that decides. A click counts only if it can have been meant: if the button was enabled
// and visible for a moment, and has not just moved under the pointer. The model's text moves what
// is on the screen, so it could aim. For the keyboard, only the moment matters.

const SHOWN = 400; // milliseconds for which the button must have been enabled
const STILL = 300; // and for which it must not have moved before a click
const OFTEN = 100; // milliseconds between two looks at its place

/** @type {Set<DecisiveButton>} */
const watched = new Set();
let timer = 0;

class DecisiveButton {
  #deciding;
  /** @type {number | null} */ #since = null; // when it was first seen enabled
  #place = ""; // where it was last seen,
  #placed = 0; // and since when

  /** @param {string} text @param {string} looks classes @param {Deciding} deciding */
  constructor(text, looks, deciding) {
    this.#deciding = deciding;
    this.element = make("button", { type: "button", class: `act decisive ${looks}`.trim(), text });
    this.element.addEventListener("click", (event) => this.#clicked(event));
    queueMicrotask(() => this.watch()); // not before its owner is complete
  }

  /** Observes it for as long as it is in the document. */
  watch() {
    watched.add(this);
    timer ||= setTimeout(lookAtAll, OFTEN);
    this.#show(performance.now());
    return this.element;
  }

  /** Starts the wait again, because what it decides about is new. */
  restart() {
    this.#since = null;
    this.#show(performance.now());
  }

  /** Notes whether it is enabled, and where it is. @param {DOMRect} rectangle */
  look({ x, y, width, height }) {
    const now = performance.now();
    const place = `${x} ${y} ${width} ${height}`;
    if (place !== this.#place) {
      this.#place = place;
      this.#placed = now;
    }
    const isShown = width > 0 && !document.hidden;
    if (!isShown || !this.#deciding.mayPress()) this.#since = null;
    else this.#since ??= now;
    this.#show(now);
  }

  /** @param {number} now */
  #show(now) {
    const isReady = this.#deciding.mayPress() && this.#since !== null && now - this.#since >= SHOWN;
    const disabled = isReady ? null : "true";
    if (this.element.ariaDisabled !== disabled) this.element.ariaDisabled = disabled;
    this.element.classList.toggle("soon", this.#since !== null && !isReady);
  }

  /** @param {MouseEvent} event */
  #clicked(event) {
    const before = this.#since;
    this.look(this.element.getBoundingClientRect());
    // The time of the click, not of its handling: the page may have been busy.
    const then = Math.min(event.timeStamp, performance.now());
    if (this.#since === null || before === null || then - before < SHOWN) {
      this.#deciding.refuse(false);
    } else if (event.detail > 1 || (event.detail === 1 && then - this.#placed < STILL)) {
      this.#deciding.refuse(true);
    } else {
      this.#deciding.press();
    }
  }
}

/** Looks at all of them before anything is changed, so that there is one layout. */
function lookAtAll() {
  timer = 0;
  for (const one of watched) if (!one.element.isConnected) watched.delete(one);
  const all = [...watched];
  const rectangles = all.map((one) => one.element.getBoundingClientRect());
  all.forEach((one, at) => one.look(/** @type {DOMRect} */ (rectangles[at])));
  if (watched.size) timer = setTimeout(lookAtAll, OFTEN);
}

// A user who returns to the page has to see it first.
document.addEventListener("visibilitychange", () => {
  for (const one of watched) one.restart();
});

// What became of a call: a short result as it is, else tabs.

/** @typedef {"result" | "output" | "raw" | "edits"} Part */

class Results {
  #call;
  #texts;
  /** @type {Part | null} */ #shown = null;
  /** @type {Part | null} */ #chosen = null;
  /** @type {CodeView | ArgumentsView | ChangesView | null} */ #view = null;
  #tabs = make("div", { class: "tabs", role: "tablist", hidden: true });
  #said = make("div", { class: "said" });
  strip = make("div", { class: "strip", hidden: true }, this.#said, this.#tabs);
  element = make("div", { class: "panel", id: "panel" });

  /** @param {Call} call @param {Texts} texts */
  constructor(call, texts) {
    this.#call = call;
    this.#texts = texts;
    this.#tabs.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step === undefined) return;
      const tabs = /** @type {HTMLElement[]} */ ([...this.#tabs.children]);
      const at = tabs.findIndex((tab) => tab.matches(":focus"));
      const next = tabs.at((at + step) % tabs.length);
      next?.focus();
      next?.click();
    });
  }

  /** Shows words in the strip. @param {string} words @param {boolean} mayHide if it is empty */
  say(words, mayHide) {
    this.strip.hidden = words === "" && this.#tabs.hidden && mayHide;
    this.#said.classList.toggle("result", words !== "" && words === shortResult(this.#call));
    setInOrder(this.#said, visible(words));
  }

  /** Shows the call as it is now. */
  refresh() {
    const { outcome, result, output, state, request, decision } = this.#call;
    // Of a call that was not run, the result only repeats why.
    const wasRun = state !== "invalid" && state !== "denied";
    const isLong = state === "failed"
      || (wasRun && outcome !== null && result !== null && shortResult(this.#call) === "");
    /** @type {Part[]} */
    const parts = [];
    if (isLong) parts.push("result");
    if (output !== "") parts.push("output");
    if (isLong && typeof result !== "string") parts.push("raw");
    if (request && decision?.edited_arguments) parts.push("edits");
    const first = isLong ? "result" : null; // others are opened by a click
    const shown = this.#chosen && parts.includes(this.#chosen) ? this.#chosen : first;
    if (parts.length !== this.#tabs.childElementCount || shown !== this.#shown) {
      this.#showTabs(parts, shown);
    }
    if (!(this.#view instanceof CodeView)) return;
    const isDone = shown !== "output" || outcome !== null;
    const text = shown === "output" ? output : textOfResult(result);
    this.#view.show(text, { isDone, mode: isDone ? "preview" : "live" });
  }

  /** @param {Part[]} parts @param {Part | null} shown */
  #showTabs(parts, shown) {
    const hadFocus = this.#tabs.querySelector(":focus") !== null;
    const tabs = parts.map((part) => {
      const tab = button(this.#nameOf(part), "plain tab", () => {
        this.#chosen = this.#shown === part && shown !== "result" ? null : part;
        this.refresh();
      });
      tab.role = "tab";
      tab.ariaSelected = String(part === shown);
      tab.tabIndex = part === (shown ?? parts[0]) ? 0 : -1;
      tab.setAttribute("aria-controls", "panel");
      return tab;
    });
    this.#tabs.replaceChildren(...tabs);
    this.#tabs.hidden = tabs.length === 0 || (tabs.length === 1 && shown === "result");
    this.element.role = this.#tabs.hidden ? null : "tabpanel";
    this.element.ariaLabel = this.#tabs.hidden || !shown ? null : this.#texts[shown];
    if (hadFocus) tabs.find((tab) => tab.tabIndex === 0)?.focus();
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.#view = shown === null ? null : this.#makeView(shown);
    this.element.replaceChildren(...(this.#view ? [this.#view.element] : []));
  }

  /** @param {Part} part */
  #nameOf(part) {
    return this.#texts[part === "result" && this.#call.state === "failed" ? "error" : part];
  }

  /** Returns a view of a part. Texts are not in it yet, since they may grow. @param {Part} part */
  #makeView(part) {
    const { name, result, request, decision } = this.#call;
    const texts = this.#texts;
    if (part === "edits") {
      const before = request?.arguments ?? {};
      const view = new ChangesView(name, before, texts);
      view.show(changedArguments(before, decision?.edited_arguments ?? {}));
      return view;
    }
    if (part === "result" && typeof result === "object" && result !== null) {
      const shown = { name: "", root: argumentOf(result), verdict: "complete", isLost: false };
      return new ArgumentsView(shown, { texts, label: texts.result });
    }
    const label = this.#nameOf(part);
    const language = part === "output" || typeof result === "string" ? null : "json";
    return new CodeView({ label, title: label, language, texts, isNumbered: false });
  }
}

/** Returns a complete value as an argument, so that results are shown like arguments.
 * @param {JsonValue} value @param {string | number | null} [key] @returns {Argument} */
function argumentOf(value, key = null) {
  const isObject = typeof value === "object" && value !== null;
  const type = typeof value === "bigint" ? "number" : typeof value;
  const kind = Array.isArray(value) ? "array" : value === null ? "null" : type;
  /** @type {Argument[] | null} */
  let children = null;
  return {
    key, kind, value, isDone: true, text: typeof value === "string" ? value : "",
    get children() {
      children ??= isObject
        ? Object.entries(value).map(([name, item]) =>
          argumentOf(item, Array.isArray(value) ? Number(name) : name))
        : [];
      return children;
    },
  };
}

// The editor of the arguments of a call that needs approval. Nothing is checked while a user types:
// that waits for a pause, so that typing stays smooth in 200 kB. What is sent is read again at the
// moment of the decision.

const PAUSE = 150; // milliseconds without a key
const MOST_FIELDS = 100; // arguments, beyond which all are edited as JSON

class Editor {
  #before;
  #texts;
  #onState;
  #fields = make("div", { class: "fields" });
  #changes;
  #told = make("div", { class: "told", role: "status" });
  #asJson;
  /** @type {Field[]} */ #list = [];
  /** Whether all arguments are in one field. */
  #isJson = false;
  #timer = 0;
  /** Whether there are changes, and none of them is wrong. */
  canApprove = false;

  /** @param {string} tool @param {JsonObject} before what the model wrote @param {Texts} texts
   * @param {(words: string) => void} onState called with its state */
  constructor(tool, before, texts, onState) {
    this.#before = before;
    this.#texts = texts;
    this.#onState = onState;
    this.#changes = new ChangesView(tool, before, texts, "region");
    // Turns fields into JSON or back, unless a field has an error.
    this.#asJson = button(texts.asJson, "plain", () => {
      const values = this.read();
      if (!values) return this.focusProblem();
      this.#show(values, !this.#isJson);
      this.focus();
    });
    this.element = make(
      "div", { class: "editor", role: "group", "aria-label": texts.editor },
      this.#told, this.#fields, this.#asJson, this.#changes.element,
    );
    this.element.addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.element.isConnected && this.#check(), PAUSE);
    });
    // A button that is pressed right after the last key must be up to date.
    this.element.addEventListener("focusout", () => this.#timer && this.#check());
    this.#show(before);
  }

  /** Whether anything differs from what the model wrote, be it valid or not. */
  get isChanged() {
    const edited = this.read();
    return !edited || changedArguments(this.#before, edited).length > 0;
  }

  /** Focuses the first field. */
  focus() {
    this.#list[0]?.input.focus();
  }

  /** Focuses the first field with an error. */
  focusProblem() {
    this.#check();
    this.#wrong[0]?.input.focus();
  }

  /** Returns the arguments, or null if a field has an error. */
  read() {
    return this.#wrong.length > 0 ? null : this.#values();
  }

  /** Makes it read-only while a decision is sent. @param {boolean} isHeld */
  hold(isHeld) {
    for (const { input } of this.#list) input.readOnly = isHeld;
    this.#asJson.ariaDisabled = isHeld ? "true" : null;
  }

  /** Makes it read-only once the call needs no decision. What was typed can be read until it is
   * dismissed. @param {string} words @param {() => void} dismiss */
  retire(words, dismiss) {
    this.hold(true);
    this.#onState = () => {};
    this.#asJson.remove();
    this.#told.replaceChildren(
      make("span", { text: fill(this.#texts.notSent, { words }) }),
      button(this.#texts.dismiss, "", dismiss),
    );
  }

  /** Shows a field per argument; JSON if there is none, or if there are too many.
   * @param {JsonObject} values @param {boolean} [asJson] */
  #show(values, asJson = false) {
    const entries = Object.entries(values);
    this.#isJson = asJson || entries.length === 0 || entries.length > MOST_FIELDS;
    this.#list = this.#isJson
      ? [new Field("field-0", this.#texts.json, values, this.#texts, true)]
      : entries.map(([key, value], at) => new Field(`field-${at}`, key, value, this.#texts));
    this.#fields.replaceChildren(...this.#list.map(({ element }) => element));
    this.#asJson.textContent = this.#isJson ? this.#texts.asForm : this.#texts.asJson;
    this.#check();
  }

  #check() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    for (const field of this.#list) field.refresh();
    const wrong = this.#wrong.map(({ key }) => key);
    const isWrong = wrong.length > 0;
    const changed = isWrong && this.#isJson ? [] : changedArguments(this.#before, this.#values())
      .filter(({ key }) => !wrong.includes(key));
    this.#changes.element.hidden = changed.length === 0 && !isWrong;
    this.#changes.show(changed, !isWrong);
    this.canApprove = changed.length > 0 && !isWrong;
    const { fixFirst, changed: words, noChanges } = this.#texts;
    const count = countOf(changed.length, "argument");
    this.#onState(isWrong ? fixFirst : this.canApprove ? fill(words, { count }) : noChanges);
  }

  get #wrong() {
    return this.#list.filter((field) => field.read().problem);
  }

  /** The values of the fields; null for one with an error. @returns {JsonObject} */
  #values() {
    if (this.#isJson) return /** @type {JsonObject} */ (this.#list[0]?.read().value);
    // Not by assignment: a key may be "__proto__".
    return Object.fromEntries(this.#list.map((field) => [field.key, field.read().value]));
  }
}

const MOST_ROWS = 16;
const COLUMNS = 72;
const LARGE = 50_000; // characters, beyond which lines are not wrapped: that takes time per key

/** A text field for one argument. Strings are shown by `visible` and read back by `original`, so
 * text that is not edited keeps each character. Other values are JSON, with exact integers. */
class Field {
  #initial;
  #texts;
  /** @type {string} */
  #shown;
  #isText;
  #wrong;
  /** @type {{ text: string, reading: Reading } | null} */
  #last = null;

  /** @param {string} id in the shadow root; never a text of the model
   * @param {string} key also the label @param {JsonValue} value @param {Texts} texts
   * @param {boolean} [isWhole] whether it has all arguments, as a JSON object */
  constructor(id, key, value, texts, isWhole = false) {
    this.#initial = value;
    this.#texts = texts;
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
    if (this.#shown.includes("⟦")) hint.textContent = texts.escapes;
    const name = setInOrder(make("label", { for: id }), visibleLine(key));
    this.element = make("div", { class: "field" }, name, this.input, this.#wrong, hint);
  }

  /** Returns its value, or what is wrong with it. */
  read() {
    const text = this.input.value;
    if (this.#last?.text !== text) this.#last = { text, reading: this.#parse(text) };
    return this.#last.reading;
  }

  /** Shows what is wrong with it, and makes it as high as its text, up to a limit. */
  refresh() {
    const lines = this.input.value.slice(0, MOST_ROWS * COLUMNS).split("\n");
    const rows = lines.reduce((sum, { length }) => sum + 1 + Math.floor(length / COLUMNS), 0);
    this.input.rows = Math.min(rows, MOST_ROWS);
    const { problem } = this.read();
    setText(this.#wrong, problem);
    this.input.ariaInvalid = problem ? "true" : null;
  }

  /** @param {string} text @returns {Reading} */
  #parse(text) {
    if (text === this.#shown) return { value: this.#initial, problem: "" };
    if (this.#isText) return { value: original(text), problem: "" };
    const json = original(text);
    const { invalidJson, notAnObject, duplicate } = this.#texts;
    let value;
    try {
      value = parseJson(json);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      return { value: null, problem: fill(invalidJson, { message: visible(error.message) }) };
    }
    if (this.isWhole && (typeof value !== "object" || value === null || Array.isArray(value))) {
      return { value: null, problem: notAnObject };
    }
    const key = repeatedKey(json);
    if (key === null) return { value, problem: "" };
    return { value: null, problem: fill(duplicate, { key: visibleLine(JSON.stringify(key)) }) };
  }
}

const TOKEN = /([{}[\]])|("(?:[^"\\]|\\.)*")(\s*:)?/gs;

/** Returns the first key that occurs twice in an object of a JSON text, or null. `JSON.parse` takes
 * the last one silently, so what is sent would not be all that is shown.
 * @param {string} text valid JSON @returns {string | null} */
function repeatedKey(text) {
  /** @type {Set<string>[]} the keys of the objects and arrays around */
  const around = [];
  for (const [, bracket, string = "", colon] of text.matchAll(TOKEN)) {
    if (bracket === "{" || bracket === "[") around.push(new Set());
    else if (bracket) around.pop();
    else if (colon) {
      /** @type {string} */
      const key = JSON.parse(string); // "\u0061" is "a"
      if (around.at(-1)?.has(key)) return key;
      around.at(-1)?.add(key);
    }
  }
  return null;
}

const MOST_CHANGES = 100; // arguments whose changes are shown

/** Returns the arguments that differ, in order: strings as they are, other values as JSON.
 * @param {JsonObject} before @param {JsonObject} after @returns {Change[]} */
function changedArguments(before, after) {
  const changes = [];
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const was = Object.hasOwn(before, key) ? before[key] : undefined;
    const is = Object.hasOwn(after, key) ? after[key] : undefined;
    const areObjects = typeof was === "object" && typeof is === "object";
    if (was === is || (areObjects && toJson(was) === toJson(is))) continue;
    const both = [was, is];
    // A text and a number can look alike; as JSON they do not.
    const isText = both.every((value) => typeof value === "string" || value === undefined);
    const [old = "", now = ""] = both.map((value) =>
      typeof value === "string" && isText ? value : value === undefined ? "" : toJson(value, 2));
    /** @type {Change["note"]} */
    const note = was === undefined ? "new" : is === undefined ? "removed" : "";
    changes.push({ key, note, before: old, after: now });
  }
  return changes;
}

/** Shows changed arguments as diffs. */
class ChangesView {
  /** @type {Map<string, DiffView>} */ #views = new Map();
  #texts;
  #looks;
  #before;
  #note = make("div", { class: "hint" });

  /** @param {string} tool @param {JsonObject} before @param {Texts} texts
   * @param {"region" | "group"} role a landmark, if there is one at a time */
  constructor(tool, before, texts, role = "group") {
    this.#texts = texts;
    this.#looks = new Looks(tool);
    this.#before = argumentOf(before);
    this.element = make("div", { class: "changes", role, "aria-label": texts.changes });
  }

  /** @param {Change[]} changes @param {boolean} [isKnown] whether these are all of them */
  show(changes, isKnown = true) {
    const texts = this.#texts;
    const views = new Map();
    const around = this.#looks.within(this.#before, NOWHERE);
    for (const { key, note, before, after } of changes.slice(0, MOST_CHANGES)) {
      const argument = this.#before.children.find((one) => one.key === key);
      const shown = argument && this.#looks.text(argument, around);
      const name = `${shown?.file ?? key}${note && ` · ${texts[note]}`}`;
      const label = fill(texts.changesTo, { argument: key });
      const language = (argument?.kind === "string" && shown?.language) || null;
      const view = this.#views.get(key) ?? new DiffView({ label, title: name, language, texts });
      view.show({ before, after, mode: "preview" });
      views.set(key, view);
    }
    const { andMore, notCompared, unchangedCall } = texts;
    const rest = changes.length - MOST_CHANGES;
    const none = changes.length ? "" : unchangedCall;
    this.#note.textContent = rest > 0
      ? fill(andMore, { count: countOf(rest, "argument") }) : isKnown ? none : notCompared;
    setChildren(this.element, [...[...views.values()].map(({ element }) => element), this.#note]);
    this.#views = views;
  }
}

// What an argument is, by its name and its tool's name. The names are those of
// argstream/terminal/tool_views.py. A wrong guess only changes how something is shown.

/** @type {Surroundings} */
const NOWHERE = { file: null, language: null, isOnlyText: false, mode: "preview" };
const PATHS = words(`path file_path filepath filePath file filename file_name fileName target_file
  targetFile absolute_path relative_path notebook_path AbsolutePath TargetFile`);
const COMMANDS = words("command cmd script shell_command bash_command CommandLine");
const PRIMARY = [...PATHS, ...COMMANDS, ...words("query url pattern name")];
const TEXTS = words(`content contents text source body data new_source file_text fileText
  file_content file_contents fileContent CodeContent`);
const CERTAIN_TEXTS = words(
  "file_text fileText file_content file_contents fileContent CodeContent",
);
const CODE = new Map([
  ["code", null], ["source_code", null], ["python", "python"], ["python_code", "python"],
  ["javascript", "javascript"], ["sql", "sql"], ["html", "html"], ["css", "css"],
  ["patch", "diff"], ["diff", "diff"], ["unified_diff", "diff"], ["patch_text", "diff"],
]);
const EDITS = words(`old_string:new_string old_str:new_str old_text:new_text old_code:new_code
  old_content:new_content old:new oldString:newString oldText:newText oldStr:newStr
  original:replacement original_text:new_text search:replace find:replace search:replacement
  find:replacement pattern:replacement`);
const OLD = new Set([...EDITS].map((pair) => pair.split(":")[0]));
const NEW = new Set([...EDITS].map((pair) => pair.split(":")[1]));
// Names that mean something else in a tool that does not edit.
const UNSURE = words("search find pattern original replace replacement");
const NAMED = words("json yaml toml markdown bash typescript xml");
const LANGUAGES = ["python", "javascript", "typescript", "sql", "bash", "ruby", "php", "lua"];
const CHANGES = words("edit edits replace patch modify update substitute multiedit");
const MANY = 64; // children, beyond which an object is data and not a call of an editor

/** @param {string} text */
function words(text) {
  return new Set(text.split(/\s+/));
}

/** Returns the argument that tells a call apart from others: its path, command, query or similar,
 * else its first short string. @param {Argument} root */
export function primaryArgument(root) {
  const some = root.children.slice(0, MANY).filter(({ kind, text }) => kind === "string" && text);
  for (const name of PRIMARY) {
    const found = some.find(({ key }) => key === name);
    if (found) return found;
  }
  return some.find(({ text, isDone }) => isDone && text.length <= LONG && !text.includes("\n"));
}

/** Returns the name of a call and what it is about.
 * @param {Call} call @param {boolean} [isShort] */
export function titleOf(call, isShort) {
  return `${visibleLine(call.name)} ${primaryOf(call, isShort)}`.trim();
}

/** Returns the primary argument in one line. @param {Call} call @param {boolean} [isShort] */
export function primaryOf(call, isShort = false) {
  const found = primaryArgument(call.root);
  if (!found) return "";
  const line = firstLine(textOf(found));
  const isPath = PATHS.has(String(found.key));
  return visibleLine((isShort && isPath && line.match(/[^/\\]+$/)?.[0]) || line);
}

/** @param {Call} call @returns {Icon} */
function iconOf(call) {
  const key = String(primaryArgument(call.root)?.key);
  if (PATHS.has(key)) return "file";
  if (COMMANDS.has(key)) return "terminal";
  if (key === "url") return "globe";
  return key === "query" || key === "pattern" ? "search" : "wrench";
}

/** What the arguments of a tool seem to be. */
class Looks {
  /** @param {string} tool its name */
  constructor(tool) {
    const found = tool.slice(0, 200).match(/[A-Z]?[a-z]+|[A-Z]+|\d+/g) ?? [];
    this.words = new Set(found.map((word) => word.toLowerCase()));
    this.changes = [...this.words].some((word) => CHANGES.has(word));
  }

  /** Returns the edit that an object is: an old text and a new one, or an old one so far.
   * @param {Argument} object @returns {EditArguments | null} */
  edit(object) {
    if (object.kind !== "object" || object.children.length > MANY) return null;
    const { children } = object;
    const old = children.find((child) => OLD.has(String(child.key)) && isText(child));
    const after = children.find((child) => NEW.has(String(child.key)) && isText(child));
    if (old === undefined) return null;
    if (after !== undefined) {
      const isPair = EDITS.has(`${old.key}:${after.key}`);
      const isSure = this.changes || ![old, after].some(({ key }) => UNSURE.has(String(key)));
      return isPair && (isSure || typeof object.key === "number") ? { old, new: after } : null;
    }
    const mayCome = !object.isDone && (this.changes || !UNSURE.has(String(old.key)));
    return mayCome ? { old, new: null } : null;
  }

  /** Returns the surroundings of what is in an object.
   * @param {Argument} object @param {Surroundings} around @returns {Surroundings} */
  within(object, around) {
    if (object.kind !== "object") return around;
    let { file, language } = around;
    let texts = 0;
    for (const { key, kind, text, isDone } of object.children.slice(0, MANY)) {
      if (kind !== "string") continue;
      if (TEXTS.has(String(key))) texts += 1;
      const isPath = PATHS.has(String(key));
      if (isPath) file = isDone ? text : (file ?? "");
      if (isDone && isPath) language = languageOfFile(text) ?? language;
      if (isDone && key === "language") {
        return { ...around, file, language: languageNamed(text), isOnlyText: false };
      }
    }
    return { ...around, file, language, isOnlyText: texts === 1 };
  }

  /** Returns the path in an object, if it is the title of the only text or of the edit in it.
   * @param {Argument} object @param {Surroundings} inner @param {EditArguments | null} edit */
  titled({ children }, { file, isOnlyText }, edit) {
    if (!file || children.length > MANY || (edit === null && !isOnlyText)) return null;
    return children.findLast(
      ({ key, text, isDone }) => isDone && text === file && PATHS.has(String(key)),
    ) ?? null;
  }

  /** Returns how a text is shown: whether as a block, however short it is, with numbered lines, in
   * which language, and under which title. @param {Argument} argument @param {Surroundings} around
   * @returns {{ isBlock: boolean, isNumbered: boolean, language: string | null, file?: string }} */
  text(argument, { file, language, isOnlyText }) {
    const name = String(argument.key);
    const block = { isBlock: true, isNumbered: true, language };
    if (argument.key === null) {
      return { ...block, language: this.words.has("patch") ? "diff" : this.#spoken() };
    }
    if (COMMANDS.has(name) && !this.changes) {
      return { ...block, isNumbered: false, language: "shell" };
    }
    if (CODE.has(name)) {
      return { ...block, language: CODE.get(name) ?? language ?? this.#spoken() };
    }
    const isFile = file !== null || this.words.has("file");
    if (CERTAIN_TEXTS.has(name) || (TEXTS.has(name) && isFile)) {
      return isOnlyText && file ? { ...block, file } : block;
    }
    const own = NAMED.has(name) ? languageNamed(name) : null;
    return { isBlock: false, isNumbered: false, language: own };
  }

  #spoken() {
    return languageNamed(LANGUAGES.find((language) => this.words.has(language)) ?? "");
  }
}

/** @param {Argument} argument */
function isText({ kind }) {
  return kind === "string" || kind === null;
}

const MOST_COUNTED = 200; // arguments whose lines are counted
const SOME = 100; // characters from which the size of a single line is of interest

/** Of texts that grow: each character is read once. @type {WeakMap<Argument, LineCount>} */
const counters = new WeakMap();
/** What complete edits add and remove, in words. @type {WeakMap<Argument, string>} */
const edits = new WeakMap();

/** Returns how many lines the arguments have, and how long their longest text is.
 * @param {Argument} root */
function measured(root) {
  const some = root.children.slice(0, MOST_COUNTED);
  const all = [root, ...some, ...some.flatMap(({ children }) => children.slice(0, MANY))];
  let [lines, longest] = [0, 0];
  for (const argument of all) {
    if (argument.kind !== "string") continue;
    const counter = counters.get(argument) ?? new LineCount();
    counters.set(argument, counter);
    const count = counter.of(argument.text);
    longest = Math.max(longest, argument.text.length);
    if (count > 1) lines += count;
  }
  return { lines, longest };
}

/** Returns the size of the arguments in words. @param {Argument} root */
export function sizeOf(root) {
  const { lines, longest } = measured(root);
  if (lines > 0) return countOf(lines, "line");
  return longest > SOME ? countOf(longest, "character") : "";
}

/** Returns the size of a call in words: of an edit, how many lines it adds and removes.
 * @param {Call} call */
function sizeOfCall({ name, root }) {
  if (!root.isDone) return sizeOf(root);
  const words = edits.get(root) ?? editWords(name, root);
  edits.set(root, words);
  return words || sizeOf(root);
}

/** Returns how many lines the edits in a call add and remove, or "" without any.
 * @param {string} tool @param {Argument} root */
function editWords(tool, root) {
  const looks = new Looks(tool);
  const counts = { same: 0, added: 0, removed: 0 };
  const some = root.children.slice(0, MANY).flatMap(({ children }) => children.slice(0, MANY));
  for (const object of [root, ...some]) {
    const edit = looks.edit(object);
    if (!edit?.new) continue;
    const [before, after] = [edit.old, edit.new].map((one) => splitLines(textOf(one)));
    for (const { kind } of lineDiff(before ?? [], after ?? []).changes) counts[kind] += 1;
  }
  return counts.added + counts.removed ? `+${counts.added} −${counts.removed}` : "";
}

// The arguments of a call: a tree that grows.
//
// A refresh compares what is shown with what is known, from the top, and changes what differs. It
// stops when its time is over, and continues in the next frame. What is complete and shown is not
// visited again, so while the model writes only the open values are. The result is right whatever
// happened in between, also if the final arguments are not those that were streamed.

const LONG = 100; // characters of a text, beyond which it is a block
const DEEPEST = 12; // levels that are indented
const DEEP = 3; // levels that a preview shows open
const FIRST = 100; // items that a preview shows,
const MORE = 500; // and how many it adds when asked
const MOST_COLUMNS = 8;
const LINE = 1.15; // lines that an item takes, about,
const RECORD = 0.22; // and more in a table
const STRIDE = 256; // items that are visited between two looks at the clock

/**
 * Shows one argument. `refresh` shows it as it is now, and returns whether it came to the end.
 * @typedef {object} Item
 * @property {HTMLElement} element
 * @property {(argument: Argument, around: Surroundings, view: ArgumentsView) => boolean} refresh
 */

export class ArgumentsView {
  /** @param {{ name: string, root: Argument, verdict: string | null, isLost: boolean,
   *   error?: Call["error"] }} call
   * @param {{ texts?: Texts, label?: string, onPainted?: () => void }} [options] `onPainted` is
   *   called when all that is known is painted */
  constructor(call, { texts: own = texts, label = own.arguments, onPainted = () => {} } = {}) {
    this.call = call;
    this.element = make("div", { class: "arguments", role: "group", "aria-label": label });
    this.texts = own;
    this.looks = new Looks(call.name);
    this.#onPainted = onPainted;
    this.#following = new TailFollower(this.element);
    this.refresh();
  }

  /** @type {Mode} */ mode = "preview";
  /** Whether there is time left in this frame. */
  hasTime = () => true;
  #onPainted;
  #following;
  #isTreePainted = false;
  /** @type {Slot | null} */ #root = null;
  /** @type {Set<View>} */ #unpainted = new Set();
  #most = 0; // characters that there were to paint

  /** Shows what has changed, in the next frames. */
  refresh() {
    this.#isTreePainted = false;
    paint(this.#paint);
  }

  /** Whether all that is known is painted, to the last character. */
  get isPainted() {
    return this.#isTreePainted && this.#unpainted.size === 0;
  }

  /** How much of it is painted, from 0 to 1. */
  get progress() {
    if (this.isPainted) return 1;
    const item = this.#root?.item;
    const tree = this.#isTreePainted ? 1 : item instanceof BranchItem ? item.progress : 0;
    let left = 0;
    for (const view of this.#unpainted) left += view.left;
    this.#most = Math.max(this.#most, left);
    return tree * (this.#most ? 1 - left / this.#most : 1);
  }

  /** @param {() => boolean} hasTime */
  #paint = (hasTime) => {
    const { root, verdict, isLost, error } = this.call;
    const { mode } = this;
    this.element.classList.toggle("writing", verdict === null && !isLost);
    this.element.classList.toggle("live", mode === "live");
    if (mode === "live") this.element.tabIndex = 0;
    else this.element.removeAttribute("tabindex");
    this.#following.isFollowing &&= mode === "live";
    const around = { ...NOWHERE, mode };
    let looks = 0;
    this.hasTime = () => looks++ === 0 || hasTime(); // there is progress in each frame
    const shape = shapeOf(root, around, this.looks);
    if (this.#root?.shape !== shape || this.#root.argument !== root) {
      this.#root = { shape, argument: root, item: makeItem(shape, root, 0, this, around) };
      this.element.replaceChildren(this.#root.item.element);
    }
    const { item } = this.#root;
    this.#isTreePainted = item.refresh(root, around, this);
    if (error && item instanceof BranchItem) item.complain(error.path?.[0], error.message);
    this.#following.grown();
    this.#finish();
    return this.#isTreePainted;
  };

  /** Called when a text begins to be painted, and when it is painted. @param {View} view */
  painting = (view) => {
    if (!view.isPainted) this.#unpainted.add(view);
    else if (this.#unpainted.delete(view)) this.#finish();
  };

  #finish() {
    if (!this.isPainted) return;
    this.#most = 0;
    this.#onPainted();
  }
}

/** @param {Argument} argument @param {Surroundings} around @param {Looks} looks
 * @returns {Shape} */
function shapeOf(argument, around, looks) {
  const { kind } = argument;
  if (kind === "object" || kind === "array") {
    if (argument.isDone && argument.children.length === 0) return "line";
    return kind === "array" && columnsOf(argument, looks) ? "table" : "branch";
  }
  if (kind !== "string") return "line";
  return isLong(argument) || looks.text(argument, around).isBlock ? "block" : "line";
}

/** @param {Argument} argument */
function isLong(argument) {
  const text = textOf(argument);
  return text.length > LONG || text.includes("\n");
}

/** @param {Shape} shape @param {Argument} argument @param {number} depth
 * @param {ArgumentsView} view @param {Surroundings} around @param {string[]} [columns]
 * @returns {Item} */
function makeItem(shape, argument, depth, view, around, columns = []) {
  if (shape === "record") return new RecordItem(columns);
  const isTree = shape === "branch" || shape === "table";
  const item = isTree
    ? new BranchItem(argument, depth, shape === "table", view.texts)
    : new LEAVES[shape](argument, view, around);
  if (depth > 0) item.element.role = "listitem"; // around the root there is no list
  return item;
}

/** @type {WeakMap<Argument, { children: Argument[], seen: number, columns: string[], fits:
 * boolean }>} */
const tables = new WeakMap();

/** Returns the keys of the objects in an array that can be a table, else null: its items are
 * objects with short values. Each item is looked at once.
 * @param {Argument} array @param {Looks} looks */
function columnsOf(array, looks) {
  const { children } = array;
  let known = tables.get(array);
  if (known?.children !== children) known = { children, seen: 0, columns: [], fits: true };
  tables.set(array, known);
  for (let at = known.seen; known.fits && at < children.length; at += 1) {
    const child = /** @type {Argument} */ (children[at]);
    if (child.kind === null) break;
    known.fits = child.kind === "object" && looks.edit(child) === null
      && !(child.isDone && child.children.length === 0);
    for (const cell of known.fits ? child.children : []) {
      if (!isShort(cell)) known.fits = false;
      const key = String(cell.key);
      if (!known.columns.includes(key)) known.columns.push(key);
      if (known.columns.length > MOST_COLUMNS) known.fits = false;
      if (!known.fits) break;
    }
    if (!child.isDone) break;
    known.seen = at + 1;
  }
  return known.fits && known.columns.length > 0 ? known.columns : null;
}

/** Returns whether a value fits into a cell: a short one, or an array of a few.
 * @param {Argument} cell */
function isShort(cell) {
  const { kind, children } = cell;
  if (kind === "string") return !isLong(cell);
  if (kind === "object") return children.length === 0;
  if (children.some((item) => item.children.length > 0)) return false;
  return children.reduce((sum, item) => sum + textOf(item).length + 2, 0) <= LONG;
}

/** An object or an array: a list of items below its name, or a table. */
class BranchItem {
  /** @param {Argument} argument @param {number} depth 0: the root, which has no name
   * @param {boolean} isTable @param {Texts} texts */
  constructor({ key }, depth, isTable, texts) {
    this.depth = depth;
    this.#isTable = isTable;
    this.element = make("div", { class: "item" });
    if (depth > 0) {
      const name = setInOrder(make("div", { class: "key" }), visibleLine(nameOf(key ?? "", texts)));
      name.append(this.#size);
      this.element.append(name);
    }
    this.#list = make("div", { class: "list", role: isTable ? "table" : "list" });
    this.#list.classList.toggle("indented", !isTable && depth > 0 && depth <= DEEPEST);
    this.#chunks = new Chunks(this.#list, height);
    this.element.append(this.#list, this.#more);
  }

  #isTable;
  #list;
  /** @type {Slot[]} */ #slots = [];
  /** @type {Argument[]} */ #children = [];
  #inner = NOWHERE;
  #settled = 0; // children, from the first on, that are shown for good
  #chunks;
  #size = button("", "plain items", () => {
    this.#isOpen = !this.#isOpen;
    this.#settled = 0;
    this.#again();
  });
  #isOpen = false; // although it is deep
  #limit = FIRST;
  #more = button("", "plain more", () => {
    this.#limit += MORE;
    this.#again();
  });
  /** Of a table; there may be more later. @type {string[]} */
  #columns = [];
  #again = () => {};

  /** How much of it is shown, from 0 to 1. @returns {number} */
  get progress() {
    const next = this.#slots[this.#settled]?.item;
    const part = next instanceof BranchItem ? next.progress : 0;
    return this.#children.length ? (this.#settled + part) / this.#children.length : 0;
  }

  /** @param {Argument} argument @param {Surroundings} around @param {ArgumentsView} view */
  refresh(argument, around, view) {
    const { children } = argument;
    const { looks, texts } = view;
    const isPreview = around.mode === "preview";
    this.#again = () => paint((hasTime) => {
      view.hasTime = hasTime;
      return this.refresh(argument, around, view);
    });
    const isDeep = isPreview && this.depth > DEEP;
    const isClosed = isDeep && !this.#isOpen;
    this.#showSize(argument, isDeep, isClosed);
    const edit = looks.edit(argument);
    const inner = looks.within(argument, around);
    // An error is shown below its argument.
    const titled = view.call.error ? null : looks.titled(argument, inner, edit);
    // These have few neighbours. What seems to be an edit may turn out to be none.
    const isSpecial = edit !== null || titled !== null;
    const fields = /** @type {const} */ (["file", "language", "isOnlyText", "mode"]);
    const isOther = fields.some((name) => inner[name] !== this.#inner[name]);
    if (isOther || isSpecial || children !== this.#children) this.#settled = 0;
    this.#children = children;
    this.#inner = inner;
    if (this.#isTable) this.#showColumns(columnsOf(argument, looks) ?? [], texts);
    const end = isClosed ? 0 : isPreview ? Math.min(children.length, this.#limit) : children.length;
    let place = Math.min(this.#settled, end);
    let isEditShown = false;
    for (let at = place; at < end; at += 1) {
      const child = /** @type {Argument} */ (children[at]);
      const isEdit = edit !== null && (child === edit.old || child === edit.new);
      if ((isEdit && isEditShown) || child === titled) continue;
      isEditShown ||= isEdit;
      if (at % STRIDE === STRIDE - 1 && !view.hasTime()) return false;
      if (!this.#show(child, place, isEdit ? argument : null, inner, view)) return false;
      place += 1;
      if (!isSpecial && this.#settled === at && child.isDone) this.#settled = at + 1;
    }
    for (const { item } of this.#slots.splice(place)) item.element.remove();
    this.#settled = Math.min(this.#settled, place);
    const left = isClosed ? 0 : children.length - end;
    this.#more.hidden = left === 0;
    const count = String(Math.min(left, MORE));
    setText(this.#more, left === 0 ? "" : fill(texts.showMore, { count }));
    this.#list.classList.toggle("open", place === 0 && !argument.isDone);
    return true;
  }

  /** Shows a message below the argument with this key. @param {unknown} key
   * @param {string} message */
  complain(key, message) {
    const slot = this.#slots.find(({ argument }) => key !== undefined && argument.key === key);
    if (!slot || slot.item.element.querySelector(":scope > .wrong")) return;
    slot.item.element.append(make("div", { class: "wrong", text: message }));
  }

  /** @param {Argument} argument @param {boolean} isDeep @param {boolean} isClosed */
  #showSize({ kind, children }, isDeep, isClosed) {
    const noun = kind === "array" ? "item" : "field";
    setText(this.#size, kind === "array" || isDeep ? countOf(children.length, noun) : "");
    this.#size.hidden = this.#size.textContent === "";
    this.#size.ariaExpanded = isDeep ? String(!isClosed) : null;
    this.#size.ariaDisabled = isDeep ? null : "true";
    this.#list.hidden = isClosed;
  }

  /** Shows the head of a table; columns are only added. @param {string[]} columns
   * @param {Texts} texts */
  #showColumns(columns, texts) {
    const before = this.#list.querySelector(".columns");
    if (columns.length === before?.childElementCount) return;
    before?.remove();
    this.#columns = columns;
    const cells = columns.map((key) => {
      const cell = make("span", { class: "cell key", role: "columnheader" });
      return setInOrder(cell, visibleLine(nameOf(key, texts)));
    });
    this.#list.prepend(make("div", { class: "record columns", role: "row" }, ...cells));
    this.#list.style.setProperty("--columns", String(columns.length));
    this.#settled = 0; // rows get the further cells
  }

  /** Shows a child at its place, and returns whether that is all of it.
   * @param {Argument} child @param {number} place
   * @param {Argument | null} edit the edit that it belongs to
   * @param {Surroundings} inner @param {ArgumentsView} view */
  #show(child, place, edit, inner, view) {
    const shape = edit ? "edit" : this.#isTable ? "record" : shapeOf(child, inner, view.looks);
    const slot = this.#slots[place];
    if (slot?.argument === child && slot.shape === shape) {
      return slot.item.refresh(edit ?? child, inner, view);
    }
    if (!view.hasTime()) return false;
    const item = makeItem(shape, child, this.depth + 1, view, inner, this.#columns);
    if (slot) slot.item.element.replaceWith(item.element);
    else this.#chunks.append(item.element);
    this.#slots[place] = { shape, argument: child, item };
    return item.refresh(edit ?? child, inner, view);
  }
}

/** Estimates how many lines on the screen the items of a chunk take. @param {Element} chunk */
function height(chunk) {
  const records = chunk.querySelectorAll(".record").length;
  return LINE * chunk.querySelectorAll(".item").length + RECORD * records;
}

/** @param {Argument} argument @param {Texts} texts */
function shortText(argument, texts) {
  const { kind, value, key, isDone } = argument;
  if (kind === "string") return textOf(argument);
  if (!isDone) return "";
  if (kind === "array") return "[]";
  if (kind === "object") return key === null ? texts.noArguments : "{}";
  return Object.is(value, -0) ? "-0" : String(value);
}

/** Shows a short value. There may be very many, so each is made with as little as possible.
 * @param {Element} element @param {Argument} argument @param {Texts} texts */
function showValue(element, argument, texts) {
  const { kind, isDone, children } = argument;
  const items = children.length > 0 ? children : [argument];
  const text = items.map((item) => shortText(item, texts)).join(", ");
  const name = `value ${kind ?? ""} ${isDone ? "" : "open"}`.trim();
  if (element.className !== name) element.className = name;
  setInOrder(element, visible(text));
}

/** A name and a short value. */
class LineItem {
  element = document.createElement("div");
  #value = document.createElement("span");

  /** @param {Argument} argument @param {ArgumentsView} view */
  constructor({ key }, { texts }) {
    this.element.className = "item line";
    if (key !== null) {
      const name = document.createElement("span");
      name.className = "key";
      this.element.append(setInOrder(name, visibleLine(nameOf(key, texts))), " ");
    }
    this.element.append(this.#value);
  }

  /** @param {Argument} argument @param {Surroundings} _around @param {ArgumentsView} view */
  refresh(argument, _around, { texts }) {
    showValue(this.#value, argument, texts);
    return true;
  }
}

/** A row of a table. */
class RecordItem {
  element = make("div", { class: "item record", role: "row" });
  /** @type {HTMLElement[]} */ #values = [];
  #columns;

  /** @param {string[]} columns of the table; there may be more later */
  constructor(columns) {
    this.#columns = columns;
  }

  /** @param {Argument} argument @param {Surroundings} _around @param {ArgumentsView} view */
  refresh({ children }, _around, { texts }) {
    while (this.#values.length < this.#columns.length) {
      const value = document.createElement("span");
      this.#values.push(value);
      this.element.append(make("span", { class: "cell", role: "cell" }, value));
    }
    for (const cell of children) {
      const value = this.#values[this.#columns.indexOf(String(cell.key))];
      if (value) showValue(value, cell, texts);
    }
    return true;
  }
}

/** A long text. */
class BlockItem {
  element = make("div", { class: "item block-item" });
  #view;

  /** @param {Argument} argument @param {ArgumentsView} view @param {Surroundings} around */
  constructor(argument, { looks, texts, painting: onPainting }, around) {
    const { isNumbered, language } = looks.text(argument, around);
    const label = argument.key === null ? texts.arguments : nameOf(argument.key, texts);
    this.#view = new CodeView({ label, language, isNumbered, texts, onPainting });
    this.element.append(this.#view.element);
  }

  /** @param {Argument} argument @param {Surroundings} around @param {ArgumentsView} view */
  refresh(argument, around, { looks, texts }) {
    const { key, isDone } = argument;
    const { language, file } = looks.text(argument, around);
    const title = file ?? (key === null ? "" : nameOf(key, texts));
    this.#view.show(textOf(argument), { isDone, language, title, mode: around.mode });
    return true;
  }
}

/** An edit: two arguments as one diff. */
class EditItem {
  element = make("div", { class: "item block-item" });
  #view;

  /** @param {Argument} _argument @param {ArgumentsView} view */
  constructor(_argument, { texts, painting: onPainting }) {
    // The place of the lines in the file is not known.
    this.#view = new DiffView({ label: "", texts, isNumbered: false, onPainting });
    this.element.append(this.#view.element);
  }

  /** @param {Argument} object @param {Surroundings} around @param {ArgumentsView} view */
  refresh(object, around, { looks, texts }) {
    const edit = looks.edit(object);
    if (edit === null) return true; // its parent shows it in another way
    const { old, new: after } = edit;
    const { language, file, mode } = looks.within(object, around);
    const names = [old, after].flatMap((one) => (one ? nameOf(one.key ?? "", texts) : []));
    const title = file || names.join(" → ");
    this.#view.label = title;
    this.#view.show({
      before: textOf(old), isBeforeDone: old.isDone,
      after: after ? textOf(after) : "", isAfterDone: after?.isDone ?? false,
      language, title, mode,
    });
    return true;
  }
}

const LEAVES = { line: LineItem, block: BlockItem, edit: EditItem };

/** Returns a text as it is so far, or as it is for good. @param {Argument} argument */
function textOf({ text, value, isDone }) {
  return isDone && typeof value === "string" ? value : text;
}

/** @param {string | number} key @param {Texts} texts */
function nameOf(key, texts) {
  return key === "" ? texts.emptyName : String(key);
}

// One constructed style sheet for all elements. It applies in their shadow roots only.

export const sheet = new CSSStyleSheet();
sheet.replaceSync(`
:host {
  --ink: var(--argstream-ink, light-dark(#1c2128, #e6e9ee));
  --soft: var(--argstream-soft, light-dark(#57606a, #9aa4b0));
  --paper: var(--argstream-paper, light-dark(#ffffff, #0f1216));
  --raised: var(--argstream-raised, light-dark(#f6f7f9, #171b21));
  --line: var(--argstream-line, light-dark(#d9dde3, #2d333b));
  --accent: var(--argstream-accent, light-dark(#0b62d6, #6cb0ff));
  --good: var(--argstream-good, light-dark(#17722f, #56c271));
  --warn: var(--argstream-warn, light-dark(#8a5a00, #e0a93b));
  --bad: var(--argstream-bad, light-dark(#b3261e, #ff8078));
  --amber: var(--argstream-amber, light-dark(#fff8e6, #2a2210));
  --mono: var(--argstream-code-font, ui-monospace, SFMono-Regular, Menlo, Consolas, monospace);
  --edge: color-mix(in srgb, var(--soft) 80%, var(--paper)); /* 3:1 for controls */
  display: block;
  max-width: 100%;
  min-width: 0;
  color: var(--ink);
  font: 0.875rem/1.43 var(--argstream-font, system-ui, sans-serif);
  text-align: start;
}
:host([hidden]), [hidden] { display: none !important; }
:is(.size, .time, .panel, .said, .told, .wrong, .hint, .title):empty { display: none; }
/* The body of an open card is painted one frame after its header: nothing below may move. */
:host([open]:is([state="writing"], [state="written"], [state="pending"], [state="running"])) .call {
  min-height: 6.15rem;
}
*, *::before, *::after { box-sizing: border-box; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
:is(.call, .head, .approval):focus-visible { outline-offset: -2px; }
.icon {
  flex: none; width: 1rem; height: 1rem;
  fill: none; stroke: currentColor; stroke-width: 1.5; stroke-linejoin: round;
}

/* The card and its header. */
.call {
  --state: var(--soft);
  contain: paint;
  border: 1px solid var(--line);
  border-radius: 0.625rem;
  background: var(--paper);
}
.call:is([data-state=writing], [data-state=running], [data-state=approved]) {
  --state: var(--accent);
}
.call[data-state=done] { --state: var(--good); }
.call:is([data-state=pending], [data-state=approving], [data-state=denying],
  [data-state=incomplete]) { --state: var(--warn); }
.call:is([data-state=failed], [data-state=blocked], [data-state=invalid],
  [data-state=malformed]) { --state: var(--bad); }
.call[data-state=pending] { border-color: color-mix(in srgb, var(--warn) 55%, var(--line)); }
.head {
  display: flex; align-items: center; gap: 0.5rem;
  width: 100%; min-height: 2.125rem; padding: 0.25rem 0.625rem;
  border: 0; border-radius: 0.5625rem;
  background: none; color: inherit; font: inherit; text-align: start; cursor: pointer;
}
.head:hover { background: color-mix(in srgb, var(--ink) 4%, transparent); }
.kind { color: var(--soft); }
.name, .primary, .size, .second, .meta {
  min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap;
}
.name, .primary, .second { unicode-bidi: isolate; }
.name { flex: 0 1 auto; max-width: 60%; font-weight: 600; }
.primary { flex: 1 1 0; font: 0.8125rem/1.5 var(--mono); color: var(--soft); direction: ltr; }
.size, .time, .state { flex: none; font-size: 0.8125rem; white-space: nowrap; }
.size, .time { color: var(--soft); font-variant-numeric: tabular-nums; }
.size { max-width: 45%; }
.state, .sign { color: var(--state); }
.call[data-state=done] .state {
  position: absolute; clip-path: inset(50%); width: 1px; overflow: hidden;
}
.call:is([data-state=writing], [data-state=running]) .sign {
  animation: pulse 1.4s ease-in-out infinite;
}
.call:is([data-state=writing], [data-state=running], [data-state=ready], [data-state=stale],
  [data-state=approved]) .sign { fill: currentColor; }
@keyframes pulse { 50% { opacity: 0.35; transform: scale(0.7); } }
.chevron { color: var(--soft); transition: transform 120ms; }
:host([open]) .head .chevron { transform: rotate(90deg); }
.call[data-state=retried] :is(.name, .primary) { text-decoration: line-through; }
.second {
  padding: 0 0.75rem 0.375rem 2.125rem; color: var(--soft); font-size: 0.8125rem;
}
.call:is([data-state=blocked], [data-state=denied], [data-state=failed]) .second {
  display: -webkit-box; margin-block-end: 0.375rem; padding-block-end: 0;
  overflow-wrap: anywhere; white-space: normal; -webkit-box-orient: vertical; -webkit-line-clamp: 2;
}

/* The body. Combining marks that pile up are clipped wherever the model's words are shown. */
.said, .warned, .alert, .wrong, .hint, .told > span, .title, .field label, .result { overflow: clip; }
.body { container-type: inline-size; }
.given { padding: 0.125rem 0.75rem 0.5rem; }
.inner {
  margin: 0 0.75rem 0.625rem; padding-inline-start: 0.75rem;
  border-inline-start: 2px solid var(--line);
}
.panel { padding: 0.125rem 0.75rem 0.625rem; }
.result { color: var(--ink); font: 0.8125rem/1.54 var(--mono); white-space: pre-wrap; }
.tabs { display: flex; gap: 0.25rem; }
.tab[aria-selected=true] {
  border-bottom: 2px solid var(--accent); border-radius: 0; color: var(--ink);
}
.strip {
  display: flex; flex-wrap: wrap; align-items: center; gap: 0.375rem 0.75rem;
  min-height: 2.25rem; padding: 0.4375rem 0.75rem; border-top: 1px solid var(--line);
}
.growing .strip:not(.approval) { display: none; }
.was-live .strip { min-height: 3.25rem; }
.unpainted .strip:not(.approval) { visibility: hidden; }
.said {
  flex: 1 1 14rem; min-width: 0; color: var(--soft); overflow-wrap: anywhere; unicode-bidi: isolate;
}
.approval {
  position: sticky; bottom: 0; z-index: 1;
  border-radius: 0 0 0.5625rem 0.5625rem; background: var(--amber);
}
.said b { color: var(--ink); font-weight: 600; }
.said b .icon { margin-inline-end: 0.375rem; vertical-align: -0.1875rem; color: var(--warn); }
.said :is(.left, .note, .moved):not(:empty)::before { content: " · " / " "; color: var(--soft); }
.said .moved { color: var(--warn); }
.left { font-variant-numeric: tabular-nums; white-space: nowrap; }
.keys { display: grid; font-size: 0.75rem; }
.keys > * { grid-area: 1 / 1; }
.approval:not(:focus-within) .inside, .approval:focus-within .outside { visibility: hidden; }
.buttons, .row-below { display: flex; flex-wrap: wrap; align-items: center; gap: 0.375rem; }
.row-below { flex: 1 0 100%; }
.row-below .buttons { flex: none; margin-inline-start: auto; }
.warned, .alert { flex: 1 0 100%; color: var(--warn); overflow-wrap: anywhere; }
.alert { color: var(--bad); }
.alert:empty { position: absolute; } /* not hidden, so that a text in it is announced */
button.act, textarea, input {
  border: 1px solid var(--edge); border-radius: 0.375rem;
  background: var(--paper); color: inherit; font: inherit;
}
button.act {
  position: relative; min-height: 1.875rem; padding: 0.125rem 0.75rem; overflow: clip;
  cursor: pointer;
}
button.act:hover { border-color: var(--ink); }
button.main { border-color: transparent; background: var(--accent); color: var(--paper); }
button.main:hover { border-color: transparent; filter: brightness(1.08); }
button.no { color: var(--bad); }
button.plain {
  padding-inline: 0.375rem; border-color: transparent; background: none; color: var(--accent);
}
button.plain:hover { border-color: transparent; text-decoration: underline; }
button.act[aria-disabled=true] { opacity: 0.6; cursor: default; filter: none; }
button.soon::after {
  content: ""; position: absolute; inset: auto 0 0; height: 0.1875rem; background: currentColor;
  transform-origin: left; animation: fill 400ms linear both;
}
@keyframes fill { from { transform: scaleX(0); } }
.pair { display: inline-flex; }
.pair > .decisive { border-radius: 0.375rem 0 0 0.375rem; }
.pair > .more-ways {
  padding-inline: 0.375rem; border-inline-start: 1px solid var(--paper);
  border-radius: 0 0.375rem 0.375rem 0;
}
.decisive[aria-disabled=true] + .more-ways { opacity: 0.6; }
.more-ways .icon { transform: rotate(90deg); vertical-align: middle; }
.menu {
  position: fixed; inset: auto; max-width: min(24rem, 100vw - 1rem); margin: 0; padding: 0.25rem;
  border: 1px solid var(--line); border-radius: 0.5rem; background: var(--paper); color: var(--ink);
  box-shadow: 0 4px 16px rgb(0 0 0 / 0.2);
}
.menu .act {
  display: block; width: 100%; border-color: transparent; overflow-wrap: anywhere;
  text-align: start;
}
.menu .act:is(:hover, :focus-visible) { background: var(--raised); }
input { flex: 1 1 12rem; min-width: 0; min-height: 1.875rem; padding: 0.125rem 0.5rem; }
.strip label { color: var(--ink); }
::slotted([slot="result"]) { margin: 0.4375rem 0.75rem; }

/* The editor. */
.editor { display: grid; gap: 0.5rem; padding: 0.125rem 0.75rem 0.625rem; }
.editor > .plain { justify-self: start; }
.fields { display: grid; gap: 0.625rem; }
.told { display: flex; flex-wrap: wrap; align-items: center; gap: 0.5rem; color: var(--warn); }
.field { display: grid; gap: 0.1875rem; }
.field label {
  color: var(--soft); font: 0.8125rem/1.4 var(--mono); overflow-wrap: anywhere;
  unicode-bidi: isolate;
}
textarea {
  display: block; width: 100%; padding: 0.3125rem 0.5rem;
  font: 0.8125rem/1.54 var(--mono); resize: vertical; overflow-wrap: anywhere; tab-size: 4;
}
textarea[rows="1"] { resize: none; }
textarea[aria-invalid=true] { border-color: var(--bad); }
textarea[readonly] { background: var(--raised); }
.hint, .wrong { font-size: 0.8125rem; overflow-wrap: anywhere; }
.hint { color: var(--soft); }
.wrong { grid-column: 1 / -1; color: var(--bad); }
.changes { display: grid; gap: 0.5rem; }
.changes > * { min-width: 0; }

/* Arguments. */
.arguments { line-height: 1.5; }
.arguments.live { max-height: min(75vh, 40rem); overflow: auto; scrollbar-width: thin; }
.volume, .chunk { contain: style; } /* from the start: later, the whole page is looked at */
.full:is(.volume, .chunk) { content-visibility: auto; }
.item { padding-block: 0.1rem; }
.block-item { padding-block: 0.25rem 0.4rem; }
.list.indented { margin-left: 0.35rem; padding-left: 0.9rem; border-left: 1px solid var(--line); }
.line {
  display: grid; grid-template-columns: minmax(4.5rem, 20%) minmax(0, 1fr); gap: 0 0.75rem;
  overflow: clip;
}
.line > :only-child { grid-column: 1 / -1; }
.key, .value {
  font: 0.8125rem/1.6 var(--mono); direction: ltr; unicode-bidi: isolate; overflow-wrap: anywhere;
}
.key { overflow: clip; color: var(--soft); }
.value { white-space: pre-wrap; }
.value:is(.object, .array) { color: var(--soft); }
button.items {
  min-height: 0; padding-block: 0; font: 0.75rem/1.6 system-ui, sans-serif; opacity: 1 !important;
}
button.items[aria-disabled=true] { color: var(--soft); text-decoration: none; }
.record {
  display: grid; grid-template-columns: repeat(var(--columns), minmax(0, 1fr)); gap: 0.75rem;
  padding: 0.1875rem 0.5rem; border-bottom: 1px solid var(--line); overflow: clip;
}
.columns { background: var(--raised); font-weight: 600; }
.from-right { unicode-bidi: isolate; }

/* Code and diffs. */
.block:popover-open {
  position: fixed; inset: 2vh 2vw; width: auto; height: auto; margin: 0; padding: 0; overflow: auto;
  color: inherit;
}
.block:popover-open > .tools {
  position: sticky; top: 0; z-index: 1; background: var(--raised);
}
.block::backdrop { background: rgb(0 0 0 / 0.4); }
.block {
  position: relative; border: 1px solid var(--line); border-radius: 0.375rem;
  background: var(--raised);
}
.tools {
  display: flex; align-items: center; gap: 0.25rem 0.5rem;
  padding: 0.125rem 0.375rem 0.125rem 0.75rem;
}
.tools .title {
  min-width: 0; font: 0.8125rem/1.4 var(--mono); overflow-wrap: anywhere; unicode-bidi: isolate;
}
.tools .meta { flex: 1; color: var(--soft); font-size: 0.75rem; }
.tools .act { min-height: 1.5rem; font-size: 0.75rem; }
.tools .act[aria-pressed=true] {
  background: color-mix(in srgb, var(--ink) 8%, transparent); color: var(--ink);
}
.tools .act[aria-pressed=false] { color: var(--soft); }
.code, .diff {
  padding-block: 0 0.4rem; font: 0.8125rem/1.54 var(--mono); font-variant-ligatures: none;
  tab-size: 4;
}
:is(.code, .diff).live { max-height: calc(20 * 1.54em); overflow: auto; scrollbar-width: thin; }
.cut { max-height: calc(13.5 * 1.54em); overflow: clip; }
.cut.was-live { max-height: calc(20 * 1.54em); }
.cut + .more {
  position: absolute; inset: auto 0 0; padding-block-start: 1.5rem; text-align: start;
  background: linear-gradient(transparent, var(--raised) 60%);
}
.unwrapped { overflow-x: auto; }
.unwrapped .rows { width: max-content; min-width: 100%; }
.unwrapped .row { white-space: pre; }
.row {
  position: relative; min-height: 1.54em; padding-inline: 0.75rem; overflow: clip;
  direction: ltr; unicode-bidi: isolate; white-space: pre-wrap; overflow-wrap: anywhere;
}
.row::before {
  position: absolute; inset-block: 0; left: 0; white-space: pre; color: var(--soft);
  user-select: none;
}
.row:empty::before { content: none !important; }
.row.continued::before { content: "↪" / ""; left: 0.1rem; }
.numbered .row { padding-left: calc(max(3, var(--digits, 3)) * 1ch + 2rem); }
.numbered .row:not(.continued)::before { content: attr(data-number) / ""; }
.code .row:not(.continued)::before {
  width: calc(max(3, var(--digits, 3)) * 1ch + 0.9rem); text-align: right;
}
.diff .row { padding-left: 1.75rem; }
.diff.numbered .row { padding-left: calc(2 * max(3, var(--digits, 3)) * 1ch + 2.75rem); }
.diff .row:not(.continued)::before { left: 0.5rem; }
.diff .added { background: light-dark(rgb(46 188 84 / 0.13), rgb(46 160 67 / 0.2)); }
.diff .removed { background: light-dark(rgb(240 90 75 / 0.12), rgb(240 83 75 / 0.22)); }
.diff .added:not(.continued)::before { content: "+" / "added: "; color: var(--good); }
.diff .removed:not(.continued)::before { content: "−" / "removed: "; color: var(--bad); }
.diff.numbered .added:not(.continued)::before { content: attr(data-number) " +" / "added: "; }
.diff.numbered .removed:not(.continued)::before { content: attr(data-number) " −" / "removed: "; }
.added .marked {
  border-radius: 2px; background: light-dark(rgb(46 188 84 / 0.3), rgb(46 160 67 / 0.45));
}
.removed .marked {
  border-radius: 2px; background: light-dark(rgb(240 90 75 / 0.25), rgb(240 83 75 / 0.45));
}
.diff .row > .marked { color: var(--ink); } /* colours of tokens would be too weak */
.diff .pending, .diff .pending > *, .diff .gap, .diff .remark { color: var(--soft); }
.diff .remark { font-style: italic; }
.writing :is(.row.open, .value.open)::after, .writing .list.open::after {
  content: "" / ""; display: inline-block; width: 0.5em; height: 1.05em; margin-left: 1px;
  vertical-align: text-bottom; border-radius: 1px; background: var(--accent);
  animation: caret 1.1s steps(2, jump-none) infinite;
}
@keyframes caret { from { opacity: 1; } to { opacity: 0.25; } }
.t-keyword, .t-heading { color: light-dark(#a0307a, #f08bc5); }
.t-heading, .t-strong { font-weight: 600; }
.t-string { color: light-dark(#0a5c36, #8fd6a4); }
.t-number, .value:is(.number, .boolean, .null) { color: light-dark(#0550ae, #79c0ff); }
.t-comment { color: light-dark(#5c6670, #98a2ae); font-style: italic; }
.t-name { color: light-dark(#7a3e00, #f0b36b); }
.plus, .t-added { color: var(--good); }
.minus, .t-removed { color: var(--bad); }

@container (width < 30rem) {
  .said { flex-basis: 100%; }
  .buttons { flex: 1; justify-content: end; }
  .was-live .strip { min-height: 5.75rem; }
  .line { grid-template-columns: minmax(0, 1fr); }
}
@media (width < 40rem) {
  .size, .time, .call:not([data-state=pending]) .state {
    position: absolute; clip-path: inset(50%); width: 1px; overflow: hidden;
  }
}
@media (pointer: coarse) {
  .head, button.act, input { min-height: 2.75rem; }
  .keys { display: none; }
}
@media (prefers-reduced-motion: reduce) {
  *, ::before, ::after { animation: none !important; transition: none !important; }
}
:host([stale]) * { animation: none !important; }
@media (forced-colors: active) {
  button.main { border-color: ButtonText; }
  button.act[aria-disabled=true] { border-color: GrayText; color: GrayText; opacity: 1; }
  textarea[aria-invalid=true] { outline: 2px dashed CanvasText; }
  .diff .added { border-left: 3px solid LinkText; }
  .diff .removed { border-left: 3px solid GrayText; }
  .marked { text-decoration: underline; }
}
`);

customElements.define("tool-call", ToolCallElement);
