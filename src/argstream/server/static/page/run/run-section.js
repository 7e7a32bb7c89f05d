/**
 * One run in a conversation: what was asked, how it stands, what the agent does, and its panels.
 *
 * Frames only mark what changed; it is shown in the next frame of the screen, however many came.
 */

import { make, setAttribute } from "../../tool-call/dom.js";
import { paint } from "../../tool-call/painting.js";
import { visibleLine } from "../../tool-call/visible.js";
import { isMissing, isOver, listed, problemWords, sentence } from "../wording.js";
import { LiveRun } from "./live-run.js";
import { RunBar } from "./run-bar.js";
import { RunPanels } from "./run-panels.js";
import { RunView } from "./run-view.js";

/** @typedef {import("../../argstream.js").Block} Block */
/** @typedef {import("../../argstream.js").Client} Client */
/** @typedef {import("../../argstream.js").Connection} Connection */
/** @typedef {import("../../argstream.js").Following} Following */
/** @typedef {import("../../argstream.js").Handlers} Handlers */
/** @typedef {import("../../argstream.js").Run} Run */
/** @typedef {import("../../argstream.js").RunInfo} RunInfo */

/** @typedef {import("./run-panels.js").Follow} Follow */

/**
 * What is known of a run before anything of it was heard.
 *
 * @typedef {Pick<RunInfo, "run" | "prompt" | "status" | "created"> & { updated?: number }} Known
 */

const LONG = 1500;
/** Slices after which what there is of a long run is shown; the rest comes while it is seen. */
const SLICES = 2;
/** Characters of a prompt that name its run. */
const TITLE = 80;
const GONE = "This run was deleted elsewhere. What you see is all that is left of it.";

export class RunSection {
  /**
   * @param {object} options
   * @param {Client} options.client
   * @param {(sentence: string) => void} options.say
   * @param {() => void} options.onState it stands otherwise than before
   * @param {() => void} options.onChange something is going to be shown
   * @param {(section: RunSection, connection: Connection) => void} options.onConnection
   * @param {Follow} options.onFollow
   */
  constructor({ client, say, onState, onChange, onConnection, onFollow }) {
    this.#client = client;
    this.#say = say;
    this.#onState = onState;
    this.#onChange = onChange;
    this.#onConnection = onConnection;
    this.#onFollow = onFollow;
    this.#view = new RunView({ decide: (decisions) => client.decide(this.runId, decisions) });
    this.shown = new Promise((resolve) => {
      this.#wasShown = resolve;
    });
    this.heard = new Promise((resolve) => {
      this.#wasHeard = resolve;
    });
  }

  element = make("article", { class: "run", tabindex: -1 });
  runId = "";
  status = "running";
  /** When it began, in seconds since 1970. */
  created = 0;
  /** The names of the calls that wait for a decision. */
  /** @type {string[]} */
  asking = [];
  /** Whether it was deleted elsewhere. */
  isLost = false;
  /** Resolves when something of it is in the page, or it is known that nothing can be. */
  /** @type {Promise<void>} */
  shown;

  /** Resolves when something has come of it. */
  /** @type {Promise<void>} */
  heard;

  #client;
  #say;
  #onState;
  #onChange;
  #onConnection;
  #onFollow;
  #view;
  #heading = make("h2", { class: "unseen" });
  #prompt = make("div", { class: "prompt", dir: "auto" });
  #words = "";
  #end = make("p", { class: "run-end", hidden: true });
  #wasShown = () => {};
  #wasHeard = () => {};
  /** @type {RunBar | null} */
  #bar = null;
  /** @type {RunPanels | null} */
  #panels = null;
  /** @type {LiveRun | null} */
  #live = null;
  /** @type {Run | null} */
  #run = null;
  /** @type {Run | null} */
  #shownRun = null;
  /** @type {Set<Block>} */
  #changed = new Set();
  #slices = 0;
  #isClosed = false;
  /** @type {Set<string>} */
  #told = new Set();

  /** @type {Handlers} */
  handlers = {
    onChange: (run, blocks) => this.#mark(run, blocks),
    onFrame: (frame) => this.#panels?.take(frame),
    onConnection: (connection) => this.#onConnection(this, connection),
  };

  /**
   * Show a run that is known, and follow it.
   *
   * @param {Known} info
   * @param {Following} [following] that it was begun with, and this section's `handlers`
   */
  begin(info, following) {
    this.runId = info.run;
    this.status = info.status;
    this.created = info.created;
    this.#bar = new RunBar(info);
    const answer = make("h3", { class: "unseen", text: "Answer" });
    const live = make("div", { class: "live" }, answer, this.#view.element);
    this.#panels = new RunPanels({
      client: this.#client,
      runId: info.run,
      bar: this.#bar,
      live,
      onChange: this.#onChange,
      onFollow: this.#onFollow,
    });
    this.#showPrompt(info.prompt);
    this.element.append(
      this.#heading,
      this.#prompt,
      this.#bar.element,
      this.#panels.element,
      live,
      this.#end,
    );
    this.#live = new LiveRun({
      client: this.#client,
      runId: info.run,
      handlers: this.handlers,
      onInfo: (news) => this.#hear(news),
      onProblem: (problem) => this.#fail(problem),
      ...(following === undefined ? {} : { following }),
    });
  }

  /** @param {number} created when it began by the clock of the server, which may not be ours */
  begun(created) {
    this.created = created;
    this.#bar?.begun(created);
  }

  close() {
    this.#isClosed = true;
    this.#live?.close();
    this.#bar?.close();
    this.#panels?.close();
  }

  /** What was asked, as far as it is known. */
  get title() {
    const words = this.#words.slice(0, 200).trim().replaceAll(/[ \t\r\n]+/g, " ");
    const letters = [...words]; // whole characters
    return letters.length > TITLE ? `${letters.slice(0, TITLE).join("")}…` : words;
  }

  get isOver() {
    return isOver(this.status);
  }

  /** The elements of the calls that wait for a decision. */
  get askingElements() {
    return this.#view.asking;
  }

  /**
   * Give the focus to one of its calls, wherever that is hidden.
   *
   * @param {HTMLElement} call
   * @returns {boolean} whether it has it
   */
  goTo(call) {
    if (this.#panels?.leaveReplay()) this.#say("The replay is left.");
    for (let at = call.closest("tool-call"); at !== null; ) {
      at.setAttribute("open", "");
      at = at.parentElement?.closest("tool-call") ?? null;
    }
    call.focus();
    call.scrollIntoView({ block: "nearest" });
    return call.matches(":focus-within");
  }

  /** Say that it is not on the server any more. */
  lose() {
    if (this.isLost) return;
    this.isLost = true;
    this.#live?.close();
    this.#giveUp(GONE);
    this.#say(GONE);
  }

  /**
   * @param {Run} run
   * @param {readonly Block[]} blocks
   */
  #mark(run, blocks) {
    this.#run = run;
    this.#wasHeard();
    for (const block of blocks) this.#changed.add(block);
    paint(this.#paint);
    this.#onChange();
  }

  /** @param {() => boolean} hasTime */
  #paint = (hasTime) => {
    const run = this.#run;
    if (run === null || this.#bar === null) return true; // it began in the meantime, but not here
    if (this.#isClosed) return true;
    const isShown =
      run === this.#shownRun
        ? this.#view.update(run, this.#changed, hasTime)
        : this.#view.show(run, hasTime);
    const wasKnown = this.#shownRun !== null;
    this.#shownRun = run;
    this.#changed.clear();
    this.#showPrompt(run.prompt);
    this.#bar.show(run);
    this.#showEnd(run);
    this.#tell(run, wasKnown);
    this.#slices += 1;
    if (isShown || this.#slices >= SLICES) this.#wasShown();
    if (!isShown) this.#onChange();
    return isShown;
  };

  /** @param {string} prompt as much as is known of it */
  #showPrompt(prompt) {
    if (prompt.length <= this.#words.length) return;
    this.#words = prompt;
    setAttribute(this.element, "aria-label", `Run: ${this.title}`);
    this.#heading.textContent = visibleLine(`You: ${this.title}`);
    this.#prompt.replaceChildren(make("span", { text: prompt }));
    // What scrolls must be reachable by keyboard.
    if (prompt.length > LONG) this.#prompt.tabIndex = 0;
  }

  /** @param {Run} run */
  #showEnd(run) {
    const words = endWords(run);
    if (words === "" || !this.#end.hidden) return;
    this.#end.textContent = visibleLine(words);
    this.#end.classList.toggle("is-bad", run.status === "failed");
    this.#end.hidden = false;
  }

  /**
   * Say what somebody waits for who does not see it, once.
   *
   * @param {Run} run
   * @param {boolean} wasKnown
   */
  #tell(run, wasKnown) {
    const calls = [...run.calls.values()].filter((call) => call.state === "pending");
    const fresh = calls.filter((call) => !this.#told.has(call.callId));
    for (const call of fresh) this.#told.add(call.callId);
    if (fresh.length > 0) {
      const names = listed(fresh.map((call) => visibleLine(call.name)));
      this.#say(`${names} ${fresh.length === 1 ? "asks" : "ask"} for approval.`);
    }
    const wasOver = this.isOver;
    const before = `${this.status} ${this.asking.join(" ")}`;
    this.status = run.status;
    this.asking = calls.map((call) => call.name);
    if (this.isOver && wasKnown && !wasOver) this.#say(overWords(run));
    if (before !== `${this.status} ${this.asking.join(" ")}`) this.#onState();
  }

  /** @param {RunInfo} info */
  #hear(info) {
    this.status = info.status;
    this.asking = info.pending.map((request) => request.call_id);
    this.#onState();
  }

  /** @param {unknown} problem */
  #fail(problem) {
    if (isMissing(problem)) this.lose();
    else this.#giveUp(`It cannot be followed: ${problemWords(problem)}`);
  }

  /** @param {string} words why nothing more is heard of it */
  #giveUp(words) {
    if (!this.isOver) {
      this.status = "failed"; // to us
      this.#bar?.fail();
    }
    this.#end.textContent = visibleLine(words);
    this.#end.classList.add("is-bad");
    this.#end.hidden = false;
    this.#wasShown();
    this.#onState();
  }
}

/** @param {Run} run */
function endWords(run) {
  const end = run.end;
  if (end?.type === "run_failed") return `Failed (${end.code}): ${sentence(end.message)}`;
  if (end?.type !== "run_stopped") return "";
  return end.reason === "" ? "Stopped." : `Stopped: ${sentence(end.reason)}`;
}

/** @param {Run} run */
function overWords(run) {
  if (run.status === "completed") return "The answer is complete.";
  return visibleLine(endWords(run));
}
