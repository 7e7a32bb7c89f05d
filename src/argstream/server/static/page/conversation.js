/**
 * One conversation: its runs, oldest first, the newest of them followed while it goes on.
 *
 * Runs come in from three sides: from the server when it is opened, by sending a message, and from
 * other tabs and people, which the list of runs tells of.
 */

import { make } from "../tool-call/dom.js";
import { visibleLine } from "../tool-call/visible.js";
import { part } from "./parts.js";
import { RunSection } from "./run/run-section.js";
import { welcome } from "./welcome.js";
import { isMissing, problemWords } from "./wording.js";

/** @typedef {import("../argstream.js").Client} Client */
/** @typedef {import("../argstream.js").Connection} Connection */
/** @typedef {import("../argstream.js").RunInfo} RunInfo */
/** @typedef {import("../tool-call.js").ToolCallElement} ToolCallElement */
/** @typedef {import("./routes.js").Route} Route */
/** @typedef {import("./scrolling.js").Scrolling} Scrolling */

const EARLIER = "Show earlier";
const PAGE = 10;
const MOST = 1000;
/** Milliseconds that the first look waits for all runs, so that nothing moves after it. */
const PATIENCE = 2000;

export class Conversation {
  /**
   * @param {object} options
   * @param {Client} options.client
   * @param {Scrolling} options.scrolling
   * @param {(sentence: string) => void} options.say
   * @param {() => void} options.onState
   * @param {(section: RunSection, connection: Connection) => void} options.onConnection
   * @param {(message: string) => void} options.onExample
   * @param {() => void} options.onAgain it could not be opened, and is to be tried again
   */
  constructor({ client, scrolling, say, onState, onConnection, onExample, onAgain }) {
    this.#client = client;
    this.#scrolling = scrolling;
    this.#onState = onState;
    this.#onExample = onExample;
    this.#onAgain = onAgain;
    const onChange = () => scrolling.expect();
    const onFollow = scrolling.follow.bind(scrolling);
    this.#say = say;
    this.#sectionOptions = { client, say, onState, onConnection, onChange, onFollow };
    this.#earlier.addEventListener("click", () => this.#showEarlier());
  }

  /** Its id; "" if it is a new one. */
  id = "";

  #client;
  #element = part("conversation", HTMLElement);
  #scrolling;
  #onState;
  #onExample;
  #onAgain;
  #say;
  #sectionOptions;
  /** What is said in place of a title. */
  #failure = "";
  #earlier = make("button", { class: "quiet earlier", type: "button", text: EARLIER });
  /** @type {RunSection[]} */
  #sections = [];
  /** Counts what is opened: what is late to arrive must not be shown in another conversation. */
  #visit = 0;
  #isSending = false;

  get isRunning() {
    return this.#sections.some((section) => !section.isOver);
  }

  /** How many calls wait for a decision. */
  get asking() {
    return this.#sections.reduce((sum, section) => sum + section.asking.length, 0);
  }

  /** Whether something was changed in a call that has not been sent. */
  get hasUnsentEdit() {
    const calls = this.#element.querySelectorAll("tool-call");
    return [...calls].some((call) => /** @type {ToolCallElement} */ (call).hasUnsentEdit);
  }

  /**
   * Whether an address leads to what is here.
   *
   * @param {Route} route
   */
  has(route) {
    if (route.kind === "run") return this.#find(route.id) !== undefined;
    return this.id === (route.kind === "new" ? "" : route.id);
  }

  /** The run that is looked at, if no other is named. */
  get newest() {
    return this.#sections.at(-1)?.runId ?? "";
  }

  get title() {
    return this.#failure || (this.#sections.at(-1)?.title ?? "");
  }

  /** Show nothing, until something is opened. */
  close() {
    this.#leave("");
  }

  /** Show that nothing was said yet. */
  showNew() {
    this.#leave("");
    this.#element.replaceChildren(welcome(this.#onExample));
    this.#onState();
  }

  /**
   * Show a conversation, and in it one of its runs.
   *
   * @param {string} id
   * @param {string} [runId]
   */
  async showConversation(id, runId = "") {
    if (this.id === id && this.#sections.length > 0 && this.#goTo(runId)) return;
    const visit = this.#leave(id);
    try {
      const limit = runId === "" ? PAGE + 1 : MOST;
      await this.#load(visit, await this.#client.runs({ conversation: id, limit }), runId);
    } catch (problem) {
      this.#fail(visit, problem);
    }
  }

  /**
   * Show a run, in its conversation.
   *
   * @param {string} runId
   */
  async showRun(runId) {
    if (this.#goTo(runId)) return;
    const visit = this.#leave("");
    try {
      const info = await this.#client.run(runId);
      if (visit !== this.#visit) return;
      if (info.conversation === "") await this.#load(visit, [info], runId);
      else await this.showConversation(info.conversation, runId);
    } catch (problem) {
      this.#fail(visit, problem);
    }
  }

  /**
   * Begin the next run; rejects if the server does not take the message.
   *
   * @param {string} message
   * @returns {Promise<boolean>} whether it is shown: one may have gone elsewhere in the meantime
   */
  async send(message) {
    const visit = this.#visit;
    const section = new RunSection(this.#sectionOptions);
    this.#isSending = true;
    try {
      const following = this.#client.converse(message, {
        ...(this.id === "" ? {} : { conversation: this.id }),
        ...section.handlers,
      });
      await Promise.race([section.heard, following.done]);
      if (visit !== this.#visit) {
        following.close(); // it goes on, and is in the list
        return false;
      }
      const { runId: run } = following;
      const created = Date.now() / 1000;
      section.begin({ run, prompt: message, status: "running", created }, following);
      this.id = following.run.conversationId;
    } finally {
      this.#isSending = false;
    }
    if (this.#sections.length === 0) this.#element.replaceChildren();
    this.#append(section);
    this.#scrolling.toEnd();
    this.#onState();
    return true;
  }

  async stop() {
    const going = this.#sections.filter((section) => !section.isOver);
    await Promise.all(going.map((section) => this.#client.stop(section.runId)));
  }

  /**
   * Take in what others have begun in this conversation, and what they have deleted.
   *
   * @param {readonly RunInfo[]} infos newest first
   * @param {boolean} isAll whether there are no older ones
   */
  notice(infos, isAll) {
    const last = this.#sections.at(-1);
    if (last === undefined || this.#isSending || this.id === "") return;
    for (const info of infos) {
      this.#find(info.run)?.begun(info.created);
    }
    const fresh = infos.filter(({ run, conversation, created }) => {
      return conversation === this.id && created > last.created && this.#find(run) === undefined;
    });
    for (const info of byAge(fresh)) this.#append(this.#begun(info));
    if (fresh.length > 0) this.#onState();
    const known = new Set(infos.map((info) => info.run));
    const oldest = isAll ? -Infinity : Math.min(...infos.map((info) => info.created));
    for (const section of this.#sections) {
      const isListed = known.has(section.runId) || section.created <= oldest;
      if (!isListed && !section.isLost) this.#ask(section);
    }
  }

  /**
   * Ask for a run that is not in the list: it may have come after that was written.
   *
   * @param {RunSection} section
   */
  async #ask(section) {
    try {
      await this.#client.run(section.runId);
    } catch (problem) {
      // Any other problem is the list's too, which tells of it; and it is asked for again.
      if (isMissing(problem) && this.#find(section.runId) === section) section.lose();
    }
  }

  /** @param {string} runId */
  forget(runId) {
    const section = this.#find(runId);
    if (section === undefined) return;
    section.close();
    section.element.remove();
    this.#sections = this.#sections.filter((one) => one !== section);
    if (this.#sections.length === 0) this.showNew();
    else this.#onState();
  }

  /** Give the focus to the next call that asks, behind the one that has it; false if none does. */
  goToAsking() {
    const calls = this.#sections.flatMap((section) => section.askingElements);
    const at = calls.findIndex((call) => call.matches(":focus-within"));
    const call = calls[(at + 1) % calls.length];
    if (!(call instanceof HTMLElement)) return false;
    return this.#sections.some(
      (section) => section.element.contains(call) && section.goTo(call),
    );
  }

  /** @param {string} id */
  #leave(id) {
    this.id = id;
    this.#failure = "";
    for (const section of this.#sections) section.close();
    this.#sections = [];
    this.#element.replaceChildren(make("p", { class: "loading", text: "Loading…" }));
    this.#onState();
    return ++this.#visit;
  }

  /**
   * @param {number} visit
   * @param {RunInfo[]} infos
   * @param {string} runId
   */
  async #load(visit, infos, runId) {
    if (visit !== this.#visit) return;
    const sorted = byAge(infos);
    const at = runId === "" ? sorted.length : sorted.findIndex((info) => info.run === runId);
    const first = Math.max(0, Math.min(sorted.length - PAGE, at));
    this.#sections = sorted.slice(first).map((info) => this.#begun(info));
    if (this.#sections.length === 0) {
      this.#failAs("There is no such conversation", "Perhaps its runs were deleted.");
      return;
    }
    await this.#allShown(this.#sections);
    if (visit !== this.#visit) return;
    const elements = this.#sections.map((section) => section.element);
    this.#element.replaceChildren(...(first > 0 ? [this.#earlier] : []), ...elements);
    if (runId === "") this.#scrolling.toEnd();
    else this.#goTo(runId);
    this.#onState();
  }

  async #showEarlier() {
    const visit = this.#visit;
    const [oldest] = this.#sections;
    if (oldest === undefined) return;
    if (this.#earlier.ariaDisabled === "true") return;
    this.#earlier.ariaDisabled = "true"; // disabled, it would lose the focus
    try {
      const infos = await this.#client.runs({ conversation: this.id, limit: MOST });
      if (visit !== this.#visit) return;
      const before = byAge(infos).filter(
        (info) => info.created <= oldest.created && !this.#find(info.run),
      );
      const sections = before.slice(-PAGE).map((info) => this.#begun(info));
      await this.#allShown(sections);
      if (visit !== this.#visit) return;
      this.#sections.unshift(...sections);
      const isLast = before.length <= PAGE;
      this.#scrolling.keepPlace(oldest.element, () => {
        oldest.element.before(...sections.map((section) => section.element));
        if (isLast) this.#earlier.remove();
      });
      (sections.at(-1) ?? oldest).element.focus({ preventScroll: true });
      this.#earlier.textContent = EARLIER;
    } catch (problem) {
      this.#say(visibleLine(problemWords(problem)));
      this.#earlier.textContent = visibleLine(`${EARLIER} (${problemWords(problem)})`);
    } finally {
      this.#earlier.ariaDisabled = "false";
    }
  }

  /** @param {readonly RunSection[]} sections */
  async #allShown(sections) {
    const all = Promise.all(sections.map((section) => section.shown));
    await Promise.race([all, new Promise((resolve) => setTimeout(resolve, PATIENCE))]);
  }

  /** @param {RunInfo} info */
  #begun(info) {
    const section = new RunSection(this.#sectionOptions);
    section.begin(info);
    return section;
  }

  /** @param {RunSection} section */
  #append(section) {
    this.#sections.push(section);
    this.#element.append(section.element);
  }

  /** @param {string} runId */
  #find(runId) {
    return this.#sections.find((section) => section.runId === runId);
  }

  /**
   * @param {string} runId "" is the newest
   * @returns {boolean} whether it is here
   */
  #goTo(runId) {
    if (runId === "") return true;
    const section = this.#find(runId);
    if (section === undefined || !section.element.isConnected) return false;
    this.#scrolling.toStart(section.element);
    section.element.focus({ preventScroll: true });
    return true;
  }

  /**
   * @param {number} visit
   * @param {unknown} problem
   */
  #fail(visit, problem) {
    if (visit !== this.#visit) return;
    if (isMissing(problem)) {
      this.#failAs("There is no such run", "Perhaps it was deleted.");
    } else {
      const button = make("button", { class: "small", type: "button", text: "Try again" });
      button.addEventListener("click", this.#onAgain);
      this.#failAs("This could not be loaded", problemWords(problem), button);
    }
  }

  /**
   * Say in place of the conversation why there is none.
   *
   * @param {string} title
   * @param {string} words
   * @param {HTMLElement[]} more
   */
  #failAs(title, words, ...more) {
    this.#failure = title;
    const heading = make("h2", { tabindex: -1, text: title });
    const about = make("p", { text: words });
    this.#element.replaceChildren(make("div", { class: "failure" }, heading, about, ...more));
    heading.focus();
    this.#say(`${title}. ${visibleLine(words)}`);
    this.#onState();
  }
}

/** @param {readonly RunInfo[]} infos */
function byAge(infos) {
  return infos.toSorted((one, other) => one.created - other.created);
}
