// <tool-call>: one call of a tool, from its first character to its result. Collapsed it is a pill,
// expanded a card: the arguments, what a sub-agent says (slotted), and a strip in which everything
// that is decided about the call appears, in one place.
//
//   import "./static/tool-call.js";
//   const element = document.createElement("tool-call");
//   element.call = call; // of argstream.js; element.refresh() after it has changed
//   element.addEventListener("decision", (event) =>
//     event.respondWith(client.decide(runId, event.decisions)));
//
// The element only shows and asks. It never sends anything by itself, and nothing that it is given
// becomes markup.

/// <reference path="./elements.d.ts" />

import { Approval } from "./tool-call/approval.js";
import { ArgumentsView } from "./tool-call/arguments.js";
import { Counting } from "./tool-call/counting.js";
import { make } from "./tool-call/dom.js";
import { Head } from "./tool-call/head.js";
import { InnerCalls } from "./tool-call/inner-calls.js";
import { Notice } from "./tool-call/notice.js";
import { Outcome } from "./tool-call/outcome.js";
import { paint } from "./tool-call/painting.js";
import { sheet } from "./tool-call/style.js";
import { isOver, stateWords } from "./tool-call/states.js";
import { scrollWords } from "./tool-call/words.js";

/** @import { Call, Decision } from "./argstream.js" */
/** @import { Editor } from "./tool-call/editor.js" */

const MOVING = 100; // milliseconds between two looks at the clock while something goes on
const WAITING = 1000; // and while it is waited for a decision

/** Somebody has decided on a call. It does not bubble: calls stand in calls. */
export class DecisionEvent extends Event {
  /** @type {Promise<unknown> | null} */
  #answer = null;

  /** @param {Record<string, Decision>} decisions as `Client.decide` takes them */
  constructor(decisions) {
    super("decision");
    this.decisions = decisions;
  }

  /**
   * Say what becomes of it: the element is busy until the promise settles, and shows its refusal.
   * @param {Promise<unknown>} answer
   */
  respondWith(answer) {
    if (this.#answer) throw new DOMException("this was answered already", "InvalidStateError");
    this.#answer = Promise.resolve(answer);
  }

  /** What was answered, or null. */
  get answer() {
    return this.#answer;
  }
}

/** The element. */
export class ToolCallElement extends HTMLElement {
  static observedAttributes = ["open"];

  /** @type {Call | null} */
  #call = null;
  #decidable = true;
  #head = new Head();
  #given = make("div", { class: "given" });
  #inner = new InnerCalls(this, () => this.refresh());
  /** @type {HTMLElement} */
  #strip = make("div", { class: "strip" });
  #panel = make("div", { class: "panel" });
  #card = make("div", { class: "call" });
  #body = make(
    "div", { class: "body", id: "body", hidden: true },
    this.#given, this.#inner.element, this.#strip, this.#panel,
  );
  #counting = new Counting();
  #isCounted = false;
  /** @type {ArgumentsView | null} */
  #view = null;
  /** @type {Approval | null} */
  #approval = null;
  /** @type {Notice | null} */
  #notice = null;
  /** @type {Outcome | null} */
  #outcome = null;
  /** @type {Editor | null} */
  #editor = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [sheet];
    this.#card.append(this.#head.element, this.#body);
    root.append(this.#card);
    this.#head.element.addEventListener("click", () => {
      this.open = !this.open;
      this.dispatchEvent(new Event("toggle"));
    });
  }

  /** The call that is shown. */
  get call() {
    return this.#call;
  }

  set call(call) {
    if (call === this.#call) return;
    this.#call = call;
    this.#view = this.#outcome = this.#approval = null;
    this.#card.classList.remove("live");
    this.#place(null);
    this.#given.replaceChildren();
    this.#endNotice();
    if (call) this.#head.introduce(call);
    this.refresh();
  }

  /** Whether it is expanded; the attribute `open`. */
  get open() {
    return this.hasAttribute("open");
  }

  set open(open) {
    this.toggleAttribute("open", Boolean(open));
  }

  /** Whether it can be decided on here. */
  get decidable() {
    return this.#decidable;
  }

  set decidable(decidable) {
    this.#decidable = Boolean(decidable);
    this.refresh();
  }

  /** Whether somebody has changed the arguments, and neither sent that nor given it up. */
  get hasUnsentEdit() {
    return this.#approval?.unsent?.isChanged ?? false;
  }

  /** Show what has changed in the call, in the next frames. */
  refresh() {
    if (!this.#call) return;
    const { state } = this.#call;
    if (this.getAttribute("state") !== state) this.setAttribute("state", state);
    // What was seen to go on keeps its height when it is over; what is over needs no room.
    if (!isOver(state)) this.#card.classList.add("live");
    if (this.isConnected) paint(this.#update);
  }

  /**
   * Give the focus to the pill.
   * @override
   * @param {FocusOptions} [options]
   */
  focus(options) {
    this.#head.element.focus(options);
  }

  connectedCallback() {
    for (const name of /** @type {const} */ (["call", "open", "decidable"])) this.#upgrade(name);
    this.#inner.connect();
    this.refresh();
  }

  disconnectedCallback() {
    clearTimeout(this.#timer);
    this.#inner.disconnect();
  }

  attributeChangedCallback() {
    this.#body.hidden = !this.open;
    this.#head.element.ariaExpanded = String(this.open); // at once: somebody may press it again
    this.refresh();
  }

  /**
   * Take what was set before the element was defined, which hides the property of the class.
   * @param {"call" | "open" | "decidable"} name
   */
  #upgrade(name) {
    if (!Object.hasOwn(this, name)) return;
    const given = this[name];
    delete (/** @type {any} */ (this)[name]);
    /** @type {any} */ (this)[name] = given;
  }

  #update = () => {
    const call = this.#call;
    if (call && this.isConnected) {
      if (this.open) this.#updateBody(call);
      this.#tick();
    }
    return true;
  };

  /** Show what depends on the clock, and look at it again for as long as it matters. */
  #tick = () => {
    const call = this.#call;
    clearTimeout(this.#timer);
    if (!call || !this.isConnected) return true;
    this.#isCounted = true; // unless it is counted, and that takes longer
    this.#head.update(call, {
      open: this.open,
      inner: this.#inner.words,
      counts: () => this.#count(call),
    });
    this.#approval?.refresh();
    const pause = pauseOf(call);
    if (!this.#isCounted) paint(this.#tick); // goes on in the next frame
    else if (pause) this.#timer = setTimeout(() => paint(this.#tick), pause);
    return true;
  };

  /** @param {Call} call */
  #count(call) {
    const counts = this.#counting.count(call.root);
    this.#isCounted = counts.isWhole;
    return counts;
  }

  /** @param {Call} call */
  #updateBody(call) {
    if (!this.#view) {
      this.#view = new ArgumentsView(call, this.#painted);
      this.#given.replaceChildren(this.#view.element);
    }
    this.#view.refresh();
    const request = call.state === "pending" && this.#decidable ? call.request : null;
    const asked = this.#approval;
    if (asked && asked.request.digest !== request?.digest) {
      // Whether that was this decision or another one is known when the answer is there.
      if (asked.isSending) return;
      this.#endApproval(asked, call);
    }
    if (request) {
      if (this.#approval) return;
      this.#notice = new Notice(call, request, this.#painted);
      this.#given.after(this.#notice.element);
      this.#approval = new Approval(call, {
        decide: (decision) => this.#decide(call, decision),
        place: (editor) => this.#place(editor),
        settled: () => this.refresh(),
        progress: () => this.#progress,
        size: () => (this.#view?.hasMore ? scrollWords(this.#count(call)) : ""),
      });
      this.#replaceStrip(this.#approval.element);
      this.#view.toStart(); // what is decided on is read from its beginning
      return;
    }
    this.#outcome ??= new Outcome(call);
    this.#outcome.refresh();
    if (this.#strip !== this.#outcome.element) {
      this.#replaceStrip(this.#outcome.element);
      this.#panel.replaceWith(this.#outcome.panel);
      this.#panel = this.#outcome.panel;
    }
  }

  /** How much of what is asked about is shown, from 0 to 1. */
  get #progress() {
    if (!this.#view || !this.#notice) return 0;
    return this.#notice.isPainted ? this.#view.progress : Math.min(0.99, this.#view.progress);
  }

  /** The arguments, or what else is asked about, have come to be shown. */
  #painted = () => this.#approval?.refresh();

  #endNotice() {
    this.#notice?.element.remove();
    this.#notice = null;
  }

  /**
   * Take a question away that is decided, here or elsewhere.
   * @param {Approval} asked
   * @param {Call} call
   */
  #endApproval(asked, call) {
    const editor = asked.unsent;
    this.#approval = null;
    this.#endNotice();
    if (!editor) {
      this.#place(null);
      return;
    }
    const isAsked = call.state === "pending";
    const words = isAsked ? "It is asked anew." : `Decided elsewhere: ${stateWords(call)}.`;
    this.#given.hidden = false;
    editor.retire(words, () => this.#place(null));
  }

  /**
   * Put another strip in place. The focus must not get lost with the button that had it.
   * @param {HTMLElement} strip
   */
  #replaceStrip(strip) {
    this.#keepFocus(this.#strip, () => {
      this.#strip.replaceWith(strip);
      this.#strip = strip;
    });
  }

  /**
   * Show an editor in place of the arguments, or none.
   * @param {Editor | null} editor
   */
  #place(editor) {
    const before = this.#editor;
    this.#editor = editor;
    if (before) {
      this.#keepFocus(before.element, () => before.element.remove());
      before.close();
    }
    this.#given.hidden = editor !== null;
    if (editor) this.#given.after(editor.element);
  }

  /**
   * Do what takes an element away; if it has the focus, the pill gets it.
   * @param {Element} element
   * @param {() => void} takeAway
   */
  #keepFocus(element, takeAway) {
    const hadFocus = element.contains(this.shadowRoot?.activeElement ?? null);
    takeAway();
    if (hadFocus) this.focus({ preventScroll: true });
  }

  /**
   * @param {Call} call
   * @param {Decision} decision
   */
  #decide(call, decision) {
    // Not by assignment: an id is the model's word, or its provider's.
    const event = new DecisionEvent(Object.fromEntries([[call.callId, decision]]));
    this.dispatchEvent(event);
    return event.answer;
  }
}

/**
 * How long nothing changes by itself, in milliseconds; 0 for ever.
 * @param {Call} call
 */
function pauseOf(call) {
  if (call.state === "writing" || call.state === "running") return MOVING;
  return call.state === "pending" && call.request?.expires_at ? WAITING : 0;
}

customElements.define("tool-call", ToolCallElement);
