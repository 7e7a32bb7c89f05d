import {
  afterPainting, BlockChunks, button, copyText, countOf, durationWords, exactly, icon, isMissing,
  isRunOver, linesOf, make, oneLine, paint, part, problemWords, sentence, setAttribute, setText,
  visibleLine,
} from "./dom.js";
import { isOver, primaryOf, sizeOf, titleOf } from "./tool-call.js";
/** @import { Block, Call, Client, Following, Run } from "./argstream.js" */
/** @import { Inspector } from "./inspector.js" */
/** @import { MarkdownView } from "./markdown.js" */
/** @import { Route } from "./page.js" */
/** @import { Replay } from "./replay.js" */
/** @import { DecisionEvent, ToolCallElement } from "./tool-call.js" */
/** @import { Connection, ConversationInfo, Decision, Handlers, RunInfo } from "./types.js" */

// A conversation on the page: its runs, their blocks, and what can be done with them.
// In this order: Conversation, approvals, RunSection, RunFooter, RunView and the views of blocks,
// Scrolling.

const PAGE = 10; // runs that are shown at first, and by each press of "Show earlier messages"
const MOST_RUNS = 1000;
/** Milliseconds to wait for the content of all runs, so that nothing moves once it is visible. */
const FIRST_PAINT = 2000;

/**
 * @typedef {object} ConversationOptions
 * @property {Client} client
 * @property {(sentence: string) => void} say announces it to screen readers
 * @property {() => void} onState
 * @property {(connection: Connection) => void} onConnection
 * @property {() => Node} makeWelcome returns what a new conversation shows
 * @property {() => void} onAgain loads it again after a failure
 */

/** One conversation: its runs, oldest first. The newest one is followed while it is in progress.
 *
 * Runs are added when the conversation is opened, when a message is sent, and when the list of
 * runs reports one that was started in another tab. */
export class Conversation {
  /** @param {ConversationOptions} options */
  constructor(options) {
    this.#options = options;
    this.#sectionOptions = {
      ...options,
      scrolling: this.#scrolling,
      onState: () => this.#changed(),
      onSend: (message, replaces) => this.send(message, replaces),
    };
  }

  /** Its ID; "" if it is new. */
  id = "";

  #options;
  #scrolling = new Scrolling();
  #element = part("conversation", HTMLElement);
  #showPending = makeApprovalBar(() => this.goToPending());
  /** @type {SectionOptions} */ #sectionOptions;
  /** Shown in place of the title if the conversation could not be loaded. */
  #failure = "";
  /** Runs that are not shown yet. @type {RunInfo[]} */ #before = [];
  #earlier = button("Show earlier messages", "quiet earlier", () => this.#showEarlier());
  /** @type {RunSection[]} */ #sections = [];
  /** Increases with each conversation that is opened, to discard late answers about another one. */
  #visit = 0;
  #isSending = false;

  get isRunning() {
    return this.#sections.some((section) => !section.isOver);
  }

  /** The number of calls that wait for a decision. */
  get pendingCount() {
    return this.#sections.reduce((sum, section) => sum + section.pendingCount, 0);
  }

  /** Whether the arguments of a call were edited, and the edits were not sent. */
  get hasUnsentEdit() {
    const calls = this.#element.querySelectorAll("tool-call");
    return [...calls].some((call) => /** @type {ToolCallElement} */ (call).hasUnsentEdit);
  }

  /** Return whether an address leads to what is shown. @param {Route} route */
  has(route) {
    if (route.kind === "run") return this.#find(route.id) !== undefined;
    return this.id === (route.kind === "new" ? "" : route.id);
  }

  get title() {
    return this.#failure || (this.section?.title ?? "");
  }

  /** The newest run. */
  get section() {
    return this.#sections.at(-1);
  }

  /** @param {boolean} isConnected whether the server can be reached */
  setConnected(isConnected) {
    for (const section of this.#sections) section.setConnected(isConnected);
  }

  /** Show that the address is not one of this page. */
  showMissing() {
    this.#leave("");
    this.#failAs("Conversation not found");
  }

  /** Show nothing, until something is opened. */
  close() {
    this.#leave("");
  }

  showNew() {
    this.#leave("");
    this.#element.replaceChildren(this.#options.makeWelcome());
    this.#changed();
  }

  /** Show a conversation, scrolled to one of its runs.
   * @param {string} id @param {string} [runId] */
  async showConversation(id, runId = "") {
    if (this.id === id && this.#sections.length > 0 && this.#goTo(runId)) return;
    const visit = this.#leave(id);
    try {
      const infos = await this.#options.client.runs({ conversation: id, limit: MOST_RUNS });
      await this.#load(visit, infos, runId);
    } catch (problem) {
      this.#fail(visit, problem, "Conversation not found");
    }
  }

  /** Show a run, in its conversation. @param {string} runId */
  async showRun(runId) {
    if (this.#goTo(runId)) return;
    const visit = this.#leave("");
    try {
      const info = await this.#options.client.run(runId);
      if (visit !== this.#visit) return;
      if (info.conversation === "") await this.#load(visit, [info], runId);
      else await this.showConversation(info.conversation, runId);
    } catch (problem) {
      this.#fail(visit, problem, "Run not found");
    }
  }

  /** Start the next run. Rejects if the server does not accept the message.
   * @param {string} message
   * @param {string} [replaces] the newest run, to replace it by the new one
   * @returns {Promise<boolean>} false if another conversation was opened in the meantime */
  async send(message, replaces = "") {
    const visit = this.#visit;
    this.#isSending = true;
    try {
      await loadMarkdown();
      const starting = { conversation: this.id, replaces };
      const { run, conversation } = await this.#options.client.start(message, starting);
      if (visit !== this.#visit) return false; // the run is in the list
      this.id = conversation;
      const created = Date.now() / 1000;
      if (this.#sections.length === 0) this.#element.replaceChildren();
      this.#append({ run, prompt: message, status: "running", created, replaces });
    } finally {
      this.#isSending = false;
    }
    this.#scrolling.toEnd();
    this.#changed();
    return true;
  }

  async stop() {
    const going = this.#sections.filter((section) => !section.isOver);
    await Promise.all(going.map((section) => section.stop()));
  }

  /** Apply what the list of conversations reports: runs that were started or deleted elsewhere.
   * @param {ConversationInfo | null} info null if it is not listed any more */
  async notice(info) {
    if ((this.section?.isLost ?? true) || this.#isSending || this.id === "") return;
    const known = info === null ? undefined : this.#find(info.run);
    if (info !== null && known !== undefined) return known.notice(info);
    const visit = this.#visit;
    const { client } = this.#options;
    const infos = byAge(await client.runs({ conversation: this.id, limit: MOST_RUNS }));
    if (visit !== this.#visit || this.#isSending) return;
    const at = infos.findLastIndex(({ run }) => this.#find(run) !== undefined);
    for (const fresh of withoutReplaced(infos.slice(at + 1))) this.#append(fresh);
    const listed = new Set(infos.map(({ run }) => run));
    for (const section of this.#sections) if (!listed.has(section.runId)) section.lose();
    this.#changed();
  }

  /** Move the focus to the next pending call, after the one that has it.
   * @returns {boolean} false if there is none */
  goToPending() {
    const pending = this.#pending;
    const at = pending.findIndex(({ element }) => element.matches(":focus-within"));
    const next = pending[(at + 1) % pending.length];
    return next !== undefined && next.section.goTo(next.element);
  }

  get #pending() {
    return this.#sections.flatMap((section) =>
      section.pendingElements.map((element) => ({ section, element })),
    );
  }

  #changed() {
    for (const section of this.#sections) {
      section.setNewest(this.id !== "" && section === this.section);
    }
    this.#showPending(this.#pending);
    this.#options.onState();
  }

  /** @param {string} id */
  #leave(id) {
    this.id = id;
    this.#failure = "";
    for (const section of this.#sections) section.close();
    this.#sections = [];
    const label = make("span", { class: "unseen", text: "Loading…" });
    this.#element.replaceChildren(make("p", { class: "loading skeleton" }, label));
    this.#changed();
    return ++this.#visit;
  }

  /** @param {number} visit @param {RunInfo[]} infos @param {string} runId */
  async #load(visit, infos, runId) {
    await loadMarkdown();
    if (visit !== this.#visit) return;
    const kept = withoutReplaced(infos);
    const target = replacementOf(infos, runId);
    const at = runId === "" ? kept.length : kept.findIndex((info) => info.run === target);
    this.#before = kept.splice(0, Math.max(0, Math.min(kept.length - PAGE, at)));
    this.#sections = kept.map((info) => new RunSection(this.#sectionOptions, info));
    if (this.#sections.length === 0) {
      this.#failAs("Conversation not found");
      return;
    }
    await allShown(this.#sections);
    if (visit !== this.#visit) return;
    const elements = this.#sections.map((section) => section.element);
    this.#element.replaceChildren(...(this.#before.length > 0 ? [this.#earlier] : []), ...elements);
    if (runId === "") this.#scrolling.toEnd();
    else this.#goTo(target);
    if (target !== runId) this.#find(target)?.showAttempt();
    this.#changed();
  }

  async #showEarlier() {
    const visit = this.#visit;
    const [oldest] = this.#sections;
    const infos = this.#before.splice(-PAGE);
    const sections = infos.map((info) => new RunSection(this.#sectionOptions, info));
    this.#earlier.ariaDisabled = "true"; // `disabled` would lose the focus
    await allShown(sections);
    this.#earlier.ariaDisabled = "false";
    if (visit !== this.#visit || oldest === undefined) return;
    this.#sections.unshift(...sections);
    this.#scrolling.keepPlace(oldest.element, () => {
      oldest.element.before(...sections.map((section) => section.element));
      if (this.#before.length === 0) this.#earlier.remove();
    });
    sections.at(-1)?.element.focus({ preventScroll: true });
  }

  /** @param {Known} info */
  #append(info) {
    const section = new RunSection(this.#sectionOptions, info);
    const replaced = this.#find(section.replaces);
    replaced?.close();
    replaced?.element.remove();
    this.#sections = [...this.#sections.filter((one) => one !== replaced), section];
    this.#element.append(section.element);
  }

  /** @param {string} runId */
  #find(runId) {
    return this.#sections.find((section) => section.runId === runId);
  }

  /** @param {string} runId "" is the newest @returns {boolean} whether it is shown here */
  #goTo(runId) {
    if (runId === "") return true;
    const section = this.#find(runId);
    if (section === undefined || !section.element.isConnected) return false;
    this.#scrolling.toStart(section.element);
    section.element.focus({ preventScroll: true });
    return true;
  }

  /** @param {number} visit @param {unknown} problem
   * @param {string} missing the title if the server does not have it */
  #fail(visit, problem, missing) {
    if (visit !== this.#visit) return;
    if (isMissing(problem)) return this.#failAs(missing);
    const again = button("Retry", "small", this.#options.onAgain);
    this.#failAs("Couldn't load this conversation", problemWords(problem), again);
  }

  /** Show in place of the conversation why there is none.
   * @param {string} title @param {string} [words] @param {HTMLElement} [action] */
  #failAs(title, words = "It may have been deleted.", action) {
    this.#failure = title;
    const newChat = make("a", { class: "small", href: "#/", text: "New chat" });
    const heading = make("h2", { tabindex: -1, text: title });
    const about = make("p", { text: words });
    const failure = make("div", { class: "failure" }, heading, about, action ?? newChat);
    this.#element.replaceChildren(failure);
    heading.focus();
    this.#options.say(`${title}. ${visibleLine(words)}`);
    this.#changed();
  }
}

/** @param {readonly RunInfo[]} infos */
function byAge(infos) {
  return infos.toSorted((one, other) => one.created - other.created);
}

/** @param {readonly RunInfo[]} infos */
function withoutReplaced(infos) {
  const replaced = new Set(infos.map((info) => info.replaces));
  return byAge(infos).filter((info) => !replaced.has(info.run));
}

/** Return the run that is shown in place of a run: the last of those that replace it, or itself.
 * @param {readonly RunInfo[]} infos @param {string} runId @returns {string} */
function replacementOf(infos, runId) {
  const next = runId === "" ? undefined : infos.find((info) => info.replaces === runId);
  return next === undefined ? runId : replacementOf(infos, next.run);
}

/** @param {readonly RunSection[]} sections */
async function allShown(sections) {
  const all = Promise.all(sections.map((section) => section.shown.promise));
  await Promise.race([all, new Promise((resolve) => setTimeout(resolve, FIRST_PAINT))]);
}

// Approvals that are out of sight, and all at once

/** Milliseconds for which the button of the checklist does nothing: a double click must not count. */
const GUARD = 400;
/** Milliseconds between two looks at which calls of the checklist can be approved. */
const CHECK_EVERY = 100;

/** @typedef {{ section: RunSection, element: ToolCallElement }} Pending */

/** Make the bar below the conversation. It is shown while a pending call is out of sight.
 * @param {() => void} onReview @returns {(pending: Pending[]) => void} takes what is pending */
function makeApprovalBar(onReview) {
  const main = part("main", HTMLElement);
  const dialog = make("dialog", { class: "checklist", "aria-labelledby": "checklist-title" });
  const words = make("span", { class: "approvals-words" });
  const review = button("Review", "small", onReview);
  review.title = review.ariaKeyShortcuts = "Alt+A";
  const all = button("Approve all", "small approve-all", () => openChecklist(dialog, pending));
  const bar = make(
    "div", { class: "approvals", role: "group", "aria-label": "Approvals", hidden: true },
    icon("paused"), words, review, all,
  );
  main.append(bar, dialog);
  /** @type {Pending[]} */
  let pending = [];
  /** @type {WeakSet<Element>} */
  const unseen = new WeakSet();
  /** Show the bar for calls out of sight. One in sight has its own buttons at the lower edge. */
  const place = () => {
    const count = pending.filter(({ element }) => unseen.has(element)).length;
    bar.hidden = count === 0;
    main.classList.toggle("is-pending", count < pending.length);
  };
  /** @param {IntersectionObserverEntry[]} entries */
  const look = (entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) unseen.delete(target);
      else unseen.add(target);
    }
    place();
  };
  const root = part("scroller", HTMLElement);
  const observer = new IntersectionObserver(look, { root, rootMargin: "-96px 0px" }); // not an edge
  return (shown) => {
    pending = shown;
    observer.disconnect();
    for (const { element } of pending) observer.observe(element);
    place();
    all.hidden = pending.length < 2;
    setText(words, `${countOf(pending.length, "approval")} needed`);
    if (pending.length === 0) dialog.close();
  };
}

/** Open the checklist of what is pending now. Calls that come later are not in it.
 * @param {HTMLDialogElement} dialog @param {Pending[]} pending */
function openChecklist(dialog, pending) {
  const opened = performance.now();
  const rows = pending.map((one) => {
    return checkedCall(one, () => {
      dialog.close();
      one.section.goTo(one.element);
    });
  });
  const problem = make("p", { class: "checklist-problem", role: "alert" });
  let isSending = false;
  const check = () => {
    const checked = rows.filter((row) => row.check());
    const count = countOf(checked.length, "call");
    setText(approve, checked.length === 0 ? "Approve" : `Approve ${count}`);
    const isReady = checked.length > 0 && !isSending && performance.now() - opened >= GUARD;
    approve.ariaDisabled = String(!isReady);
    return isReady ? checked : [];
  };
  const press = async () => {
    const checked = check();
    isSending = checked.length > 0;
    try {
      for (const [section, some] of Map.groupBy(checked, (row) => row.section)) {
        const decisions = some.map(({ callId, decision }) => [callId, decision]);
        await section.decide(Object.fromEntries(decisions));
      }
      if (isSending) dialog.close();
    } catch (error) {
      problem.textContent = visibleLine(problemWords(error));
    }
    isSending = false;
  };
  const approve = button("Approve", "small primary", press);
  const cancel = button("Cancel", "small", () => dialog.close());
  dialog.replaceChildren(
    make("h2", { id: "checklist-title", text: "Approve these calls?" }),
    make("ul", {}, ...rows.map((row) => row.element)),
    problem,
    make("div", { class: "checklist-actions" }, cancel, approve),
  );
  for (const { element } of pending) element.open = true; // or it would not be painted
  check();
  const checking = setInterval(check, CHECK_EVERY);
  dialog.addEventListener("close", () => clearInterval(checking), { once: true });
  dialog.showModal();
}

/** Return a row of the checklist. It can be checked once the card of the call is painted whole.
 * @param {Pending} pending @param {() => void} onReview */
function checkedCall({ section, element: card }, onReview) {
  const call = /** @type {Call} */ (card.call);
  const digest = call.request?.digest ?? "";
  const box = make("input", { type: "checkbox", disabled: true });
  const note = make("span", { class: "checklist-note" });
  const name = make("span", { class: "checklist-name", text: visibleLine(call.name) });
  const primary = make("span", { class: "checklist-primary", text: primaryOf(call) });
  const size = make("span", { class: "checklist-note", text: sizeOf(call.root) });
  const check = () => {
    const isPending = call.isPending && call.request?.digest === digest;
    const isReady = isPending && card.isReadyToApprove;
    if (!isReady || box.disabled) box.checked = isReady;
    box.disabled = !isReady;
    setText(note, isReady ? "" : isPending ? "Rendering…" : "Already decided");
    return box.checked;
  };
  const review = button("Review", "small quiet", onReview);
  const element = make("li", {}, make("label", {}, box, name, primary, size, note), review);
  /** @type {Decision} */
  const decision = { decision: "approve", digest };
  return { section, element, callId: call.callId, decision, check };
}

// One run

/**
 * What is known of a run before it was read.
 * @typedef {Pick<RunInfo, "run" | "prompt" | "status" | "created"> &
 *   Partial<Pick<RunInfo, "updated" | "replaces" | "is_driven">>} Known
 */
/** @typedef {ConversationOptions & { scrolling: Scrolling,
 *   onSend: Conversation["send"] }} SectionOptions */

/** Characters from which a prompt has a scroll bar, and so must be reachable by keyboard. */
const LONG_PROMPT = 1500;
const TITLE = 80; // characters of a prompt in a title
const HIDDEN_FOR = 30_000; // milliseconds after which a hidden tab closes its connection
const DELETED = "This conversation was deleted. This copy disappears when you leave the page.";

/** One run in a conversation: the message, what the agent does, how it ended, and the footer.
 *
 * Frames only mark what has changed. It is painted in the next frame of the screen, however many
 * frames of the run have arrived. */
export class RunSection {
  /** @param {SectionOptions} options @param {Known} info */
  constructor(options, info) {
    this.#options = options;
    this.runId = info.run;
    this.status = info.status;
    /** The run that it replaces, or "". */
    this.replaces = info.replaces ?? "";
    this.#footer = new RunFooter(info, {
      copied: () => answerOf(this.#run),
      onRetry: () => this.#send(this.#words, this.runId),
      onTimeline: () => this.toggleTimeline(),
      onReplay: () => this.toggleReplay(),
    });
    this.#live.append(make("h3", { class: "unseen", text: "Answer" }));
    this.#showPrompt(info.prompt);
    if (this.replaces !== "") this.element.append(this.#attemptButton);
    this.element.append(
      ...[this.#heading, this.#ask, this.#live, this.#panel, this.#end],
      ...[this.#footer.element, this.#footer.live],
    );
    this.#follow();
    if (info.is_driven === false) this.#setUndriven(info.status === "running");
  }

  element = make("article", { class: "run", tabindex: -1 });
  /** The number of calls that wait for a decision. */
  pendingCount = 0;
  /** Whether it was deleted elsewhere. */
  isLost = false;
  /** Resolved when something of it is painted, or nothing can be.
   * @type {PromiseWithResolvers<void>} */
  shown = Promise.withResolvers();

  #options;
  #view = new RunView();
  #heading = make("h2", { class: "unseen" });
  #prompt = make("div", { class: "prompt", dir: "auto" });
  #edit = button("Edit message", "small quiet edit-message run-again", () => this.#editMessage());
  #attemptButton = button("Show earlier attempt", "small quiet show-attempt", () =>
    this.showAttempt(),
  );
  #ask = make("div", { class: "ask" }, this.#edit, this.#prompt);
  #words = "";
  #end = make("div", { class: "run-end", hidden: true });
  #footer;
  /** What a replay shows in place of the blocks. */
  #panel = make("div", { class: "run-panels" });
  #live = make("div", { class: "live" });
  /** @type {Inspector | null} */ inspector = null;
  /** @type {Replay | null} */ replay = null;
  /** @type {Following | null} */ #following = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #resting;
  /** The earlier attempt, once it was opened. @type {RunSection | null} */
  #attempt = null;
  /** @type {Run | null} */ #run = null;
  /** @type {Set<Block>} */ #changed = new Set();
  #isClosed = false;
  #isSending = false;
  #isStoppedHere = false;
  /** What the page was told last. */
  #state = "";
  #isDisconnected = false;
  #isUndriven = false;
  /** Pending calls that were announced. @type {Set<Call>} */
  #told = new Set();

  /** @param {ConversationInfo} info */
  notice({ status, is_driven, pending }) {
    this.#setUndriven(status === "running" && !is_driven);
    if (!document.hidden) return; // its stream knows more
    this.status = status;
    this.pendingCount = pending;
    this.#options.onState();
  }

  /** @param {DecisionEvent["decisions"]} decisions */
  decide(decisions) {
    return this.#options.client.decide(this.runId, decisions);
  }

  async stop() {
    this.#isStoppedHere = true;
    await this.#options.client.stop(this.runId);
  }

  /** Open the timeline beside the conversation, or close it. */
  toggleTimeline() {
    if (this.inspector !== null) return this.inspector.close();
    return this.#try(async () => {
      const { Inspector } = await import("./inspector.js");
      const onClose = () => {
        this.inspector = null;
        this.#options.onState();
      };
      const about = { client: this.#options.client, runId: this.runId, run: this.#run };
      /** @param {Call} call */
      const onGoTo = (call) => {
        const card = this.#view.elementOf(call);
        if (card === undefined) return;
        this.#view.reveal(card);
        card.scrollIntoView({ block: "nearest" });
      };
      this.inspector = new Inspector({ ...about, onGoTo, onClose });
    });
  }

  /** Replay the run in place of its blocks, or end that. */
  toggleReplay() {
    if (this.replay !== null) return this.replay.close();
    return this.#try(async () => {
      const { Replay } = await import("./replay.js");
      if (this.replay !== null) return; // pressed twice while it was loaded
      this.#live.hidden = true;
      const onClose = () => {
        this.replay = null;
        this.#live.hidden = false;
        scrolling.follow(null);
        this.#options.onState();
      };
      const { client, scrolling } = this.#options;
      const makeView = () => new RunView();
      const onChange = () => scrolling.expect();
      const about = { client, runId: this.runId, place: this.#panel };
      const replay = (this.replay = new Replay({ ...about, makeView, onChange, onClose }));
      scrolling.follow({ element: replay.stage, end: () => replay.end });
    });
  }

  /** Load and open something. @param {() => Promise<void>} open */
  async #try(open) {
    this.#footer.setProblem("");
    try {
      await open();
      this.#options.onState();
    } catch (problem) {
      this.#footer.setProblem(problemWords(problem));
    }
  }

  /** @param {boolean} isConnected whether the server can be reached */
  setConnected(isConnected) {
    this.#isDisconnected = !isConnected;
    this.#showStale();
  }

  close() {
    this.#isClosed = true;
    this.#unfollow();
    this.#footer.close();
    this.inspector?.close();
    this.replay?.close();
    this.#attempt?.close();
  }

  /** The beginning of the message. */
  get title() {
    const words = oneLine(this.#words.slice(0, 200));
    const letters = [...words]; // do not cut a surrogate pair
    return letters.length > TITLE ? `${letters.slice(0, TITLE).join("")}…` : words;
  }

  get isOver() {
    return isRunOver(this.status);
  }

  /** The elements of the calls that wait for a decision. */
  get pendingElements() {
    return this.isOver ? [] : this.#view.pendingElements;
  }

  /** @param {boolean} isNewest only the newest run can be retried, and its message edited */
  setNewest(isNewest) {
    this.element.classList.toggle("is-newest", isNewest);
    // Whether the server would let a new run replace this one.
    const isReplaceable = isNewest && this.isOver && !this.isLost && this.#run?.mode !== "observed";
    this.element.classList.toggle("is-replaceable", isReplaceable);
    if (!isReplaceable) this.#ask.querySelector("form")?.remove();
  }

  /** Move the focus to one of its calls, and show the call if it is hidden.
   * @param {ToolCallElement} call
   * @returns {boolean} whether the call has the focus */
  goTo(call) {
    if (this.replay !== null) this.#options.say("Replay closed.");
    this.replay?.close();
    this.#view.reveal(call);
    call.focus();
    call.scrollIntoView({ block: "nearest" });
    return call.matches(":focus-within");
  }

  /** Report that the run is no longer on the server. */
  lose() {
    if (this.isLost) return;
    this.isLost = true;
    this.#unfollow();
    this.#giveUp(DELETED);
    this.#options.say(DELETED);
  }

  /** Open the run that this one replaces. */
  async showAttempt() {
    if (this.#attempt === null) {
      try {
        const info = await this.#options.client.run(this.replaces);
        if (this.#attempt !== null) return; // pressed twice while it was loaded
        this.#attempt = new RunSection(this.#options, info);
      } catch (problem) {
        this.#options.say(visibleLine(problemWords(problem)));
        return;
      }
      const { element } = this.#attempt;
      element.classList.add("is-attempt");
      element.hidden = true;
      this.#attemptButton.after(element);
    }
    const { element } = this.#attempt;
    element.hidden = !element.hidden;
    this.#attemptButton.ariaExpanded = String(!element.hidden);
    this.#attemptButton.textContent = `${element.hidden ? "Show" : "Hide"} earlier attempt`;
  }

  async #follow() {
    /** @type {Handlers} */
    const handlers = {
      onChange: (run, blocks) => this.#mark(run, blocks),
      onFrame: (frame) => {
        if (frame.event !== undefined) this.#setUndriven(false);
        this.inspector?.take(frame);
      },
      onConnection: this.#options.onConnection,
    };
    const following = this.#options.client.follow(this.runId, handlers, this.#run ?? undefined);
    this.#following = following;
    document.addEventListener("visibilitychange", this.#look);
    this.#look();
    try {
      await following.done;
    } catch (problem) {
      this.#fail(problem);
    }
    if (this.#following === following) this.#unfollow();
  }

  #unfollow() {
    document.removeEventListener("visibilitychange", this.#look);
    clearTimeout(this.#resting);
    this.#rest();
  }

  #rest() {
    this.#following?.close();
    this.#following = null;
  }

  /** A browser allows six connections to a host, over all of its tabs. So a tab that is hidden for
   * a while closes its stream, and reconnects as soon as it is visible. */
  #look = () => {
    clearTimeout(this.#resting);
    if (document.hidden) this.#resting = setTimeout(() => this.#rest(), HIDDEN_FOR);
    else if (this.#following === null) this.#follow();
  };

  /** @param {Run} run @param {readonly Block[]} blocks */
  #mark(run, blocks) {
    this.#run = run;
    for (const block of blocks) this.#changed.add(block);
    paint(this.#paint);
    this.#options.scrolling.expect();
  }

  /** @param {() => boolean} hasTime */
  #paint = (hasTime) => {
    const run = this.#run;
    if (run === null || this.#isClosed) return true;
    const wasKnown = this.#live.contains(this.#view.element);
    if (!wasKnown) {
      this.#view = new RunView((decisions) => this.decide(decisions), run.blocks.length);
      this.#live.append(this.#view.element);
      this.#showStale();
    }
    const isShown = this.#view.update(run, this.#changed, hasTime);
    this.#changed.clear();
    this.#showPrompt(run.prompt);
    this.#footer.show(run);
    this.#announce(run, wasKnown);
    if (isRunOver(run.status)) this.#showEnd(run);
    this.shown.resolve(); // the rest of a long run is added while it is visible
    if (!isShown) this.#options.scrolling.expect();
    return isShown;
  };

  /** @param {string} prompt as far as it is known */
  #showPrompt(prompt) {
    if (prompt.length <= this.#words.length) return;
    this.#words = prompt;
    setAttribute(this.element, "aria-label", `Run: ${this.title}`);
    this.#heading.textContent = visibleLine(`You: ${this.title}`);
    this.#prompt.replaceChildren(make("span", { text: prompt }));
    if (prompt.length > LONG_PROMPT) this.#prompt.tabIndex = 0;
  }

  /** Start the next run, or one that replaces this one.
   * @param {string} message @param {string} [replaces] */
  async #send(message, replaces = "") {
    if (this.#isSending) return;
    this.#isSending = true;
    try {
      await this.#options.onSend(message, replaces);
    } catch (problem) {
      this.#footer.setProblem(problemWords(problem));
      this.#options.say(visibleLine(problemWords(problem)));
    } finally {
      this.#isSending = false;
    }
  }

  /** Put a form in place of the message, to send it again. */
  #editMessage() {
    const field = make("textarea", { "aria-label": "Edit message", rows: 3 });
    field.value = this.#words;
    const send = make("button", { class: "small primary", type: "submit", text: "Send" });
    const cancel = () => {
      form.remove();
      this.#edit.focus();
    };
    const actions = make("div", {}, button("Cancel", "small", cancel), send);
    const form = make("form", { class: "edit-form" }, field, actions);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (field.value.trim() !== "") this.#send(field.value, this.runId);
    });
    field.addEventListener("keydown", (event) => {
      if (event.isComposing || event.shiftKey) return;
      if (event.key === "Escape") cancel();
      else if (event.key === "Enter") form.requestSubmit();
      else return;
      event.preventDefault();
    });
    this.#ask.append(form); // the style sheet hides the message meanwhile
    field.focus();
  }

  /** @param {Run} run */
  #showEnd(run) {
    const { end } = run;
    if (end === null || end.type === "run_completed" || !this.#end.hidden) return;
    const words = this.#endWords(run);
    if (end.type === "run_stopped") {
      const again = button("Continue", "small run-again", () => this.#send("Continue."));
      this.#showEndBlock(false, words, again);
      return;
    }
    const details = `${end.code}: ${end.message}\nRun ${this.runId}`;
    const copy = button("Copy details", "small", () => copyText(copy, details));
    const retry = () => this.#send(this.#words, this.runId);
    this.#showEndBlock(true, words, button("Retry", "small run-again", retry), copy);
    setAttribute(/** @type {Element} */ (this.#end.firstElementChild), "title", end.code);
  }

  /** @param {Run} run that is over */
  #endWords({ end }) {
    if (end?.type === "run_failed") return `Run failed: ${sentence(end.message)}`;
    if (end?.type !== "run_stopped") return "Done.";
    if (end.reason !== "") return `Stopped: ${sentence(end.reason)}`;
    return this.#isStoppedHere ? "Stopped by you." : "Stopped.";
  }

  /** @param {boolean} isBad @param {string} words @param {HTMLElement[]} buttons */
  #showEndBlock(isBad, words, ...buttons) {
    const about = make("p");
    about.textContent = visibleLine(words);
    this.#end.replaceChildren(about);
    if (buttons.length > 0) this.#end.append(make("div", { class: "run-actions" }, ...buttons));
    this.#end.classList.toggle("is-bad", isBad);
    this.#end.hidden = false;
  }

  /** Announce what changed for users who do not see it, once.
   * @param {Run} run @param {boolean} wasKnown */
  #announce(run, wasKnown) {
    const calls = [...run.calls.values()].filter((call) => call.state === "pending");
    const fresh = calls.filter((call) => !this.#told.has(call));
    this.#told = new Set(calls);
    if (fresh.length > 0) {
      const titles = fresh.map((call) => titleOf(call)).join(", ");
      this.#options.say(`Needs approval: ${titles}. Press Alt+A to review.`);
    }
    const wasOver = this.isOver;
    this.status = run.status;
    this.pendingCount = calls.length;
    if (this.isOver && wasKnown && !wasOver) this.#options.say(visibleLine(this.#endWords(run)));
    // Cards are painted later than their calls are known.
    const ids = calls.map((call) => call.callId).join(" ");
    const state = `${this.status} ${ids} ${this.pendingElements.length}`;
    if (state !== this.#state) this.#options.onState();
    this.#state = state;
  }

  /** @param {boolean} isUndriven whether no process drives the run, so that nothing can happen */
  #setUndriven(isUndriven) {
    if (isUndriven === this.#isUndriven) return;
    this.#isUndriven = isUndriven;
    this.#showStale();
  }

  /** Stop the clocks while nothing is heard of the run. */
  #showStale() {
    const isStale = !this.isOver && (this.#isDisconnected || this.#isUndriven);
    const words = this.#isDisconnected ? "Disconnected" : "Resuming after a server restart…";
    this.#view.setStale(isStale);
    this.#footer.setStale(isStale ? words : "");
    this.element.classList.toggle("is-stale", isStale);
  }

  /** @param {unknown} problem */
  #fail(problem) {
    if (isMissing(problem)) this.lose();
    else this.#giveUp(`Live updates stopped: ${problemWords(problem)}`, true);
  }

  /** @param {string} words why the run is not followed any more @param {boolean} [mayRetry] */
  #giveUp(words, mayRetry = false) {
    const status = this.status;
    if (!this.isOver) {
      this.status = "failed"; // as far as this page knows
      this.#footer.setStatus("failed");
    }
    const again = button("Retry", "small", () => {
      this.status = status;
      this.#end.hidden = true;
      this.#follow();
      this.#options.onState();
    });
    this.#showEndBlock(true, words, ...(mayRetry ? [again] : []));
    this.shown.resolve();
    this.#options.onState();
  }
}

/** Return what the model wrote for the user. @param {Run | null} run */
function answerOf(run) {
  const texts = (run?.blocks ?? []).flatMap((block) =>
    block.type === "text" && block.parentId === null && !block.isLost ? [block.text] : [],
  );
  return texts.join("\n\n");
}

const TICK = 200; // milliseconds between two updates of the clock

/** The line below a run: its duration, its tokens, and what can be done with it. While the run is
 * in progress there is another line instead, at the lower edge, that says what happens: below a
 * text that grows, it would move all the time. */
export class RunFooter {
  /**
   * @param {Known} info
   * @param {{ copied: () => string, onRetry: () => void, onTimeline: () => void,
   *   onReplay: () => void }} actions copied returns the answer
   */
  constructor(info, { copied, onRetry, onTimeline, onReplay }) {
    this.#info = info;
    this.#took = (info.updated ?? info.created) - info.created;
    this.#copy = button("Copy", "small quiet", () => copyText(this.#copy, copied()));
    const group = { role: "group", "aria-label": "Run status" };
    const dot = make("span", { class: "run-dot", "aria-hidden": "true" });
    this.live = make("div", { class: "run-line", ...group }, dot, this.#activity);
    this.element = make(
      "div", { class: "run-footer", ...group },
      this.#time, this.#tokens, this.#copy,
      button("Retry", "small quiet run-again", onRetry),
      button("Timeline", "small quiet run-panel", onTimeline),
      button("Replay", "small quiet run-panel", onReplay),
      this.#problem,
    );
    this.#time.title = exactly(info.created);
    this.setStatus(info.status);
  }

  #info;
  /** How long it took, as far as it is known, in seconds. */
  #took;
  #activity = make("span", { class: "run-activity" });
  #time = make("time");
  #tokens = make("span", { class: "run-tokens" });
  #problem = make("span", { class: "run-problem" });
  #copy;
  #stale = "";
  /** @type {Run | null} */ #run = null;
  /** What the run does, and since when. @type {unknown} */
  #doing = null;
  #since = 0;
  /** @type {ReturnType<typeof setInterval> | undefined} */ #ticking;

  /** @param {Run} run */
  show(run) {
    this.#run = run;
    const { created, updated = created } = this.#info;
    this.#took = Math.max(updated, run.endedAt ?? run.time) - (run.startedAt ?? created);
    for (const { cause, startedAt, endedAt } of run.breaks) {
      if (cause === "pause") this.#took -= (endedAt ?? startedAt) - startedAt;
    }
    const { input_tokens: read, output_tokens: written } = run.usage;
    const total = (read ?? 0) + (written ?? 0);
    setText(this.#tokens, total > 0 ? countOf(total, "token") : "");
    const parts = [];
    if (read !== null) parts.push(countOf(read, "input token"));
    if (written !== null) parts.push(countOf(written, "output token"));
    this.#tokens.title = parts.join(", ");
    this.setStatus(run.status);
  }

  /** @param {string} words why something could not be done, or "" */
  setProblem(words) {
    setText(this.#problem, visibleLine(words));
  }

  /** @param {string} words why nothing is heard of the run, or "" */
  setStale(words) {
    this.#stale = words;
    this.#tick();
  }

  close() {
    clearInterval(this.#ticking);
    this.#ticking = undefined;
  }

  /** @param {string} status */
  setStatus(status) {
    const isOver = isRunOver(status);
    this.live.dataset.status = status;
    this.live.hidden = isOver;
    this.element.hidden = !isOver;
    setText(this.#time, isOver ? tookWords(this.#took) : "");
    if (isOver) this.close();
    else this.#ticking ??= setInterval(() => this.#tick(), TICK);
    this.#tick();
  }

  #tick() {
    setText(this.#activity, this.live.hidden ? "" : this.#stale || this.#activityWords());
  }

  /** "Writing write_file · 24 lines · 2.7 s" */
  #activityWords() {
    const block = this.#run?.blocks.findLast((one) => !one.isLost);
    const { words, key = words } = doingOf(this.#run, block);
    if (key !== this.#doing) this.#since = performance.now();
    this.#doing = key;
    if (this.live.dataset.status === "paused") return words;
    const isWriting = block?.type === "call" && block.state === "writing";
    const size = isWriting ? sizeOf(block.root) : "";
    const took = tookWords((performance.now() - this.#since) / 1000);
    return [words, size, took].filter((part) => part !== "").join(" · ");
  }
}

/** How long something took: "0.6 s", "2.7 s", "12 s"; "" if that is too short to matter.
 * @param {number} seconds */
function tookWords(seconds) {
  return seconds < 0.05 ? "" : durationWords(seconds);
}

/** Return what a run does, and a key that is another one when it does something else.
 * @param {Run | null} run
 * @param {Block | undefined} block the newest one
 * @returns {{ words: string, key?: unknown }} */
function doingOf(run, block) {
  const calls = [...(run?.calls.values() ?? [])];
  const pending = calls.filter((call) => call.isPending);
  const [first] = pending;
  if (pending.length > 1) return { words: `${pending.length} approvals needed` };
  if (first !== undefined) return { words: `Needs approval: ${titleOf(first)}` };
  const running = calls.filter((call) => call.state === "running");
  if (running.length > 0) {
    const names = running.map(({ name }) => visibleLine(name)).join(", ");
    return { words: `Running ${names}`, key: running[0]?.key };
  }
  if (block?.type === "thinking" && !block.isOver) return { words: "Thinking" };
  if (block?.type === "text") return { words: "Writing the answer" };
  if (block?.type === "call" && block.state === "writing") {
    return { words: `Writing ${visibleLine(block.name)}`, key: block.key };
  }
  return { words: "Waiting for the model" };
}

// The blocks of a run

/** @typedef {Extract<Block, { type: "text" | "thinking" }>} Words */
/** @typedef {(decisions: DecisionEvent["decisions"]) => Promise<unknown>} Decide */
/** How one block is shown. `show` shows what has changed, and returns false if there is more.
 * @typedef {{ element: HTMLElement, show: (hasTime: () => boolean) => boolean }} BlockView */

const GROUP = 4; // finished calls in a row that become a group
const CLOSED = 2; // lines that a call takes, about
const OPEN = 8;
const always = () => true;

/** The blocks of a run, in the order in which they started: texts, thinking and calls.
 *
 * It renders a `Run` of argstream.js and has no connection, so it shows live runs and replays
 * alike. Blocks are only added. Calls that follow each other are rows of a list, and the blocks of
 * a sub-agent are inside of its call. Work is done as long as there is time; the rest is done when
 * it is called again. */
export class RunView {
  /** @param {Decide} [decide] without it, nothing can be decided
   * @param {number} [first] how many blocks there are: finished calls among them start collapsed */
  constructor(decide, first = 0) {
    this.#decide = decide;
    this.#first = first;
  }

  element = make("div", { class: "blocks" });
  #decide;
  #first;
  /** How each block is shown, by its key. @type {Map<number, BlockView["show"]>} */
  #views = new Map();
  /** The newest call with each ID. @type {Map<string, ToolCallElement>} */
  #calls = new Map();
  /** The container of each sub-agent, by its call; `undefined` is the agent itself.
   * @type {Map<ToolCallElement | undefined, Container>} */
  #containers = new Map();
  /** Blocks that are new, or have changed. @type {Set<Block>} */
  #changed = new Set();
  #isStale = false;

  /** Show what has changed, or has not been shown yet.
   * @param {Run} run @param {Iterable<Block>} blocks that are new, or have changed
   * @param {() => boolean} [hasTime] @returns {boolean} whether all is shown */
  update(run, blocks, hasTime = always) {
    for (const block of blocks) this.#changed.add(block);
    for (const block of this.#changed) {
      const show = this.#views.get(block.key) ?? this.#add(run, block);
      if (!show(hasTime)) return false;
      this.#changed.delete(block);
      if (!hasTime()) break;
    }
    if (this.#changed.size > 0) return false;
    if (run.end !== null && this.#views.size === this.#first) {
      for (const container of this.#containers.values()) container.settle();
    }
    return true;
  }

  /** The elements of the calls that wait for a decision. */
  get pendingElements() {
    const calls = this.element.querySelectorAll('tool-call[state="pending"]');
    return /** @type {ToolCallElement[]} */ ([...calls]);
  }

  /** The card of a call, which may be one of another `Run` of the same run. @param {Call} call */
  elementOf({ callId }) {
    return this.#calls.get(callId);
  }

  /** Open everything that hides a call. @param {ToolCallElement} call */
  reveal(call) {
    for (let at = /** @type {Element | null} */ (call); at !== null; ) {
      at.setAttribute("open", "");
      let button = at.previousElementSibling;
      while (button?.localName === "tool-call") button = button.previousElementSibling;
      if (at.classList.contains("is-grouped") && button !== null) openGroup(button, true);
      at = at.parentElement?.closest("tool-call") ?? null;
    }
  }

  /** @param {boolean} isStale whether nothing is heard of the run */
  setStale(isStale) {
    this.#isStale = isStale;
    for (const call of this.#calls.values()) call.stale = isStale;
  }

  /** @param {Run} run @param {Block} block */
  #add(run, block) {
    const container = this.#containerOf(block);
    /** @type {BlockView["show"]} */
    let show;
    if (block.type === "call") {
      const isOpen = this.#views.size >= this.#first || !isOver(block.state);
      const element = this.#makeCall(block, isOpen);
      container.addCall(block, element);
      show = () => {
        element.refresh();
        return true;
      };
    } else {
      const view = block.type === "text" ? textView(block) : thinkingView(block);
      container.add(view.element, block.type === "text" ? linesOf(block.text) : 1);
      show = (hasTime) => view.show(hasTime) && showLost(view.element, run, block);
    }
    this.#views.set(block.key, show);
    return show;
  }

  /** @param {Block} block */
  #containerOf({ parentId }) {
    const parent = this.#calls.get(parentId ?? "");
    const known = this.#containers.get(parent);
    if (known !== undefined) return known;
    const inside = parent === undefined ? this.element : make("div", { class: "inside" });
    parent?.append(inside);
    const container = new Container(inside);
    this.#containers.set(parent, container);
    return container;
  }

  /** @param {Call} call @param {boolean} isOpen */
  #makeCall(call, isOpen) {
    const element = document.createElement("tool-call");
    element.readonly = this.#decide === undefined;
    element.labels = { keysElsewhere: "Alt+A to review" };
    element.open = isOpen;
    element.call = call;
    element.stale = this.#isStale;
    element.addEventListener("decision", (event) => {
      if (this.#decide !== undefined) event.respondWith(this.#decide(event.decisions));
    });
    this.#calls.set(call.callId, element);
    return element;
  }
}

/** The blocks of the agent, or of a sub-agent. Calls that follow each other are rows of a list.
 *
 * When the next text or the next turn starts, finished calls of the last list are collapsed, and
 * four or more of them in a row are hidden behind a button, their group. */
class Container {
  /** @param {HTMLElement} element */
  constructor(element) {
    this.#chunks = new BlockChunks(element);
  }

  #chunks;
  /** The list of calls at the end. @type {HTMLElement | null} */
  #list = null;
  #turn = 0;
  /** Calls that the user has opened or closed: these stay as they are. */
  #touched = new WeakSet();

  /** Add a text or thinking. @param {HTMLElement} element @param {number} lines */
  add(element, lines) {
    this.settle();
    this.#list = null;
    this.#chunks.append(element);
    this.#chunks.weigh(lines);
  }

  /** @param {Call} call @param {ToolCallElement} element */
  addCall({ turn }, element) {
    if (turn !== this.#turn) this.settle();
    this.#turn = turn;
    if (this.#list === null) this.#chunks.append((this.#list = make("div", { class: "calls" })));
    element.addEventListener("toggle", () => this.#touched.add(element));
    this.#list.append(element);
    this.#chunks.weigh(element.open ? OPEN : CLOSED);
  }

  /** Collapse and group the finished calls at the end: something else follows. */
  settle() {
    /** @type {ToolCallElement[]} */
    let row = [];
    for (const child of [...(this.#list?.children ?? []), null]) {
      if (child?.classList.contains("group")) continue;
      const call = /** @type {ToolCallElement | null} */ (child);
      if (call !== null && isFinished(call)) {
        this.#collapse(call);
        row.push(call);
      } else {
        if (row.length >= GROUP) group(row);
        row = [];
      }
    }
  }

  /** @param {ToolCallElement} element */
  #collapse(element) {
    const { call } = element;
    if (call === null || !element.open || this.#touched.has(element)) return;
    // The text that follows an edit is about what it has changed.
    const isEdited = call.state === "completed" && isEdit(call.root);
    if (isEdited && element === this.#list?.lastElementChild) return;
    const focused = document.activeElement;
    const isInside = focused !== element && element.contains(focused); // in a call of its sub-agent
    if (isInside || element.shadowRoot?.activeElement?.matches("textarea, input")) return;
    element.open = false;
    element.call = null; // so the elements of its body are released
    element.call = call;
    // Inserted again, it has no place before. Otherwise browsers would count a shift of the layout.
    element.replaceWith(element);
    if (focused === element) element.focus({ preventScroll: true });
  }
}

/** Return whether arguments replace an old text.
 * @param {Call["root"]} argument @returns {boolean} */
function isEdit({ children }) {
  const some = children.slice(0, GROUP);
  return some.some((one) => /^old(?:_|$)/.test(String(one.key)) || isEdit(one));
}

/** Return whether nothing more happens to a call, and it hides nothing that waits for the user.
 * @param {ToolCallElement} element */
function isFinished(element) {
  if (element.call === null || !isOver(element.call.state)) return false;
  return element.querySelector('tool-call[state="pending"]') === null;
}

/** Hide finished calls that follow each other behind a button before them.
 * @param {ToolCallElement[]} row */
function group(row) {
  if (row.some((call) => call.matches(":focus-within"))) return;
  const groups = row.flatMap(({ previousElementSibling: before }) =>
    before instanceof HTMLButtonElement ? [before] : [],
  );
  const [button = make("button", { class: "group", type: "button" }), ...others] = groups;
  for (const other of others) other.remove();
  for (const call of row) call.classList.add("is-grouped");
  const calls = row.flatMap(({ call }) => (call === null ? [] : [call]));
  setText(button, groupWords(calls));
  button.onclick = () => openGroup(button, button.ariaExpanded !== "true");
  row[0]?.before(button);
  openGroup(button, button.ariaExpanded === "true");
}

/** @param {Element} button @param {boolean} isOpen */
function openGroup(button, isOpen) {
  button.ariaExpanded = String(isOpen);
  let call = button.nextElementSibling;
  for (; call?.classList.contains("is-grouped"); call = call.nextElementSibling) {
    call.toggleAttribute("hidden", !isOpen);
  }
}

/** @type {Record<string, string>} */
const OUTCOMES = {
  completed: "done", failed: "failed", denied: "denied", invalid: "invalid", lost: "retried",
};

/** "12 tool calls · 11 done, 1 failed · 0.8 s" @param {Call[]} calls */
function groupWords(calls) {
  const outcomes = Object.entries(OUTCOMES).flatMap(([state, word]) => {
    const count = calls.filter((call) => call.state === state).length;
    return count === 0 ? [] : [`${count} ${word}`];
  });
  const starts = calls.flatMap((call) => call.executedAt[0] ?? call.startedAt ?? []);
  const ends = calls.flatMap((call) => call.endedAt ?? []);
  const isTimed = starts.length > 0 && ends.length > 0;
  const took = isTimed ? tookWords(Math.max(...ends) - Math.min(...starts)) : "";
  const parts = [countOf(calls.length, "tool call"), outcomes.join(", "), took];
  return parts.filter((words) => words !== "").join(" · ");
}

/** If a text was interrupted and retried, adds a note with the cause. Always returns true, for use
 * in `&&`.
 * @param {HTMLElement} element @param {Run} run @param {Words} block */
function showLost(element, { breaks }, { isLost, lastTextAt }) {
  if (!isLost || element.classList.contains("is-lost")) return true;
  const isCrash = breaks.some(({ cause, startedAt }) => {
    return cause === "crash" && (lastTextAt === null || startedAt >= lastTextAt);
  });
  const cause = isCrash ? "The server restarted" : "The connection to the model broke";
  element.classList.add("is-lost");
  element.append(make("p", { class: "lost-note", text: `${cause} here. Retried below.` }));
  return true;
}

/** @type {typeof MarkdownView} */
let Markdown;

/** Load what shows texts: a new chat has none. */
export async function loadMarkdown() {
  ({ MarkdownView: Markdown } = await import("./markdown.js"));
}

/** @param {Words} block @returns {BlockView} */
function textView(block) {
  const words = new Markdown();
  const element = make("div", { class: "text" }, words.element);
  return { element, show: (hasTime) => words.grow(block.text, hasTime) };
}

/** Thinking, collapsed: its text is painted once it is opened.
 * @param {Words} block @returns {BlockView} */
function thinkingView(block) {
  const summary = make("summary", { class: "thinking-words" });
  const element = make("details", { class: "thinking" }, summary);
  /** @type {MarkdownView | null} */
  let view = null;
  /** @param {() => boolean} hasTime */
  const fill = (hasTime) => {
    if (!element.open) return true;
    if (view === null) summary.after((view = new Markdown()).element);
    return view.grow(block.text, hasTime);
  };
  element.addEventListener("toggle", () => paint(fill));
  const show = () => {
    const isDone = block.isOver || block.isLost;
    setText(summary, isDone ? thoughtWords(block) : "Thinking…");
    element.classList.toggle("is-over", isDone);
    if (element.open) paint(fill);
    return true;
  };
  return { element, show };
}

/** @param {Words} block */
function thoughtWords({ startedAt, lastTextAt }) {
  const took = startedAt === null || lastTextAt === null ? "" : tookWords(lastTextAt - startedAt);
  return took === "" ? "Thought" : `Thought for ${took}`;
}

// Scrolling

const NEAR = 40; // pixels from the end at which a reader counts as being there
const MARGIN = 24; // pixels that are left below the content that is followed
/** Milliseconds after a click for which growing content was opened by the reader. */
const UNFOLDING = 500;
/** Frames in which new content is painted: calls after their run, and large ones in slices. */
const FRAMES = 30;

/** Keeps the end of the conversation in sight while it grows, if the reader is there. A reader who
 * is elsewhere is not moved. */
class Scrolling {
  constructor() {
    const content = part("conversation", HTMLElement);
    this.#scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    content.addEventListener("click", (event) => this.#clicked(event), { capture: true });
    this.#button.addEventListener("click", () => {
      this.toEnd();
      this.#scroller.focus({ preventScroll: true }); // the button disappears
    });
    const observer = new ResizeObserver(() => this.#resized());
    observer.observe(content);
    observer.observe(this.#scroller);
  }

  /** Returns the end that is followed, if that is not the end of everything.
   * @type {(() => Element) | null} */
  #end = null;
  #scroller = part("scroller", HTMLElement);
  #button = part("newest", HTMLElement);
  #isAtEnd = true;
  #top = 0;
  #unfolded = -Infinity;
  #frames = 0;

  /** Go to the end, and stay there. */
  toEnd() {
    this.#end = null;
    this.#isAtEnd = true;
    this.#follow();
  }

  /** New content is going to be painted. The end is followed in the very frames in which it moves:
   * the observer is correct too, but browsers count what it moves as a layout shift. */
  expect() {
    this.#frames = FRAMES;
    afterPainting(this.#painted);
  }

  #painted = () => {
    this.#resized();
    if (--this.#frames > 0) afterPainting(this.#painted);
  };

  /** Go to where something starts, and keep its end in sight while it grows.
   * @param {{ element: HTMLElement, end: () => Element } | null} shown null: it was removed */
  follow(shown) {
    if (shown === null) {
      this.#end = null;
      this.#isAtEnd = this.#distance() < NEAR;
      return;
    }
    this.toStart(shown.element);
    this.#end = shown.end;
    this.#isAtEnd = true;
    this.#unfolded = -Infinity; // the click that started this is no reason to stay
  }

  /** Insert content above what is read, which stays in place. Browsers do that too, but not at the
   * very top.
   * @param {HTMLElement} read @param {() => void} change */
  keepPlace(read, change) {
    const before = read.getBoundingClientRect().top;
    change();
    this.#scroller.scrollTop += read.getBoundingClientRect().top - before;
    this.#scrolled();
  }

  /** @param {HTMLElement} element */
  toStart(element) {
    this.#end = null;
    this.#isAtEnd = false;
    element.scrollIntoView({ block: "start" });
    this.#top = this.#scroller.scrollTop; // the reader has not scrolled
    this.#show();
  }

  #scrolled() {
    const top = this.#scroller.scrollTop;
    if (top !== this.#top && this.#distance() < NEAR) this.#isAtEnd = true;
    else if (top < this.#top) this.#isAtEnd = false;
    this.#top = top;
    this.#show();
  }

  #resized() {
    if (performance.now() - this.#unfolded < UNFOLDING) {
      this.#isAtEnd = this.#distance() < NEAR;
    }
    if (this.#isAtEnd) this.#follow();
    this.#show();
  }

  /** @param {Event} event */
  #clicked(event) {
    const unfolds = event.composedPath().some((target) => {
      if (!(target instanceof Element)) return false;
      return target.localName === "summary" || target.hasAttribute("aria-expanded");
    });
    if (unfolds) this.#unfolded = performance.now();
  }

  #follow() {
    const distance = this.#distance();
    if (this.#end === null) this.#scroller.scrollTop = this.#scroller.scrollHeight;
    else if (distance > 0) this.#scroller.scrollTop += distance;
    this.#top = this.#scroller.scrollTop;
    this.#show();
  }

  #distance() {
    const end = this.#end?.();
    if (end?.isConnected) {
      const { bottom } = this.#scroller.getBoundingClientRect();
      return end.getBoundingClientRect().bottom + MARGIN - bottom;
    }
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    return scrollHeight - scrollTop - clientHeight;
  }

  #show() {
    this.#button.hidden = this.#isAtEnd || this.#distance() < NEAR;
  }
}
