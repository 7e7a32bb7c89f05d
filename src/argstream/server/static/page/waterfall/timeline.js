/**
 * When each thing of a run could be known: its turns, what was said, its calls, their arguments,
 * their tools. A timeline is told the frames of a run's log in order, and only notes; it is the
 * page's twin of `argstream.terminal.timeline.Timeline`, and is tested against that.
 *
 * All times are seconds since the first frame. Time does not go back here, though a clock may.
 */

/** @typedef {string | number} Key */
/** @import { Frame } from "../../argstream.js" */
/** @typedef {WordTimes | CallTimes} BlockTimes */
/** @typedef {TurnTimes | BlockTimes | ArgumentTimes} Times */

const FREE_TEXT_KINDS = new Set(["custom", "code"]);
const LONGEST_BEGINNING = 80; // characters by which a text is told from others

/** When an argument, or a value inside one, became visible. */
export class ArgumentTimes {
  kind = /** @type {const} */ ("argument");
  /** Its last character; null if that never came. @type {number | null} */
  settledAt = null;
  /** What is inside of it, in the order of the document. @type {Map<Key, ArgumentTimes> | null} */
  inside = null;
  beginning = "";

  /**
   * @param {CallTimes} call
   * @param {readonly Key[]} path
   * @param {number} visibleAt when its first character came
   */
  constructor(call, path, visibleAt) {
    this.call = call;
    this.path = path;
    this.visibleAt = visibleAt;
  }
}

/** When something was said or thought. */
export class WordTimes {
  /** When the last of it came. */
  lastAt = 0;
  isOver = false;
  isLost = false;
  beginning = "";

  /**
   * @param {"text" | "thinking"} kind
   * @param {number} startedAt
   */
  constructor(kind, startedAt) {
    this.kind = kind;
    this.startedAt = startedAt;
    this.lastAt = startedAt;
  }
}

/** A call, and when it was how far; null where it never was. */
export class CallTimes {
  kind = /** @type {const} */ ("call");
  /** When anything of its text, or its verdict, came last. */
  lastAt = 0;
  /** When it had its verdict. @type {number | null} */
  endedAt = null;
  /** @type {string | null} */
  verdict = null;
  /** @type {Map<Key, ArgumentTimes>} */
  inside = new Map();
  /** Arguments that are a text instead of JSON. @type {ArgumentTimes | null} */
  text = null;
  /** @type {number | null} */
  askedAt = null;
  /** @type {number | null} */
  decidedAt = null;
  /** @type {string | null} */
  decision = null;
  /** Each time that its tool was started. @type {number[]} */
  executedAt = [];
  /** How often a crash cut its tool off: nobody knows how long that ran. */
  interruptions = 0;
  /** When its result was there, or what is told instead of one. @type {number | null} */
  finishedAt = null;
  /** @type {"completed" | "failed" | null} */
  outcome = null;
  isLost = false;
  /** What its sub-agent said and called. @type {BlockTimes[]} */
  blocks = [];

  /**
   * @param {string} id
   * @param {string} name
   * @param {string} tool what kind of tool it calls
   * @param {number} startedAt when the tool's name was visible
   */
  constructor(id, name, tool, startedAt) {
    this.id = id;
    this.name = name;
    this.tool = tool;
    this.startedAt = startedAt;
    this.lastAt = startedAt;
  }

  get isFreeText() {
    return FREE_TEXT_KINDS.has(this.tool);
  }

  /** Its arguments, without what is inside of them. @returns {Iterable<ArgumentTimes>} */
  get arguments() {
    return this.text === null ? this.inside.values() : [this.text];
  }
}

/** A turn of the model. */
export class TurnTimes {
  kind = /** @type {const} */ ("turn");
  /** Null if it was cut off, or goes on. @type {number | null} */
  endedAt = null;
  isLost = false;
  /** What was said and called in it, but for what sub-agents did. @type {BlockTimes[]} */
  blocks = [];

  /**
   * @param {number} turn
   * @param {number} attempt
   * @param {number} startedAt
   */
  constructor(turn, attempt, startedAt) {
    this.turn = turn;
    this.attempt = attempt;
    this.startedAt = startedAt;
  }
}

/** What was noted of a run. */
export class Timeline {
  /** When the last frame came. */
  now = 0;
  /** Of the last frame. */
  seq = 0;
  /** @type {TurnTimes[]} */
  turns = [];
  /** All of them, in the order in which they began. @type {CallTimes[]} */
  calls = [];
  /** All of them. @type {WordTimes[]} */
  words = [];
  /** How the run ended. @type {"completed" | "failed" | "stopped" | null} */
  end = null;
  /** @type {number | null} */
  #origin = null;
  /** Some agents do not say when a turn begins. */
  #saysTurns = false;
  /** By id: one may come again, in another turn. @type {Map<string, CallTimes>} */
  #byId = new Map();
  /** Blocks of words by parent and number. @type {Map<string | null, Map<number, WordTimes>>} */
  #byBlock = new Map();

  /**
   * Note a frame, unless it is known already.
   *
   * Live frames join what grows. So the first of them after a log may tell some of it again:
   * `overlaps` says so, and then nothing is added to what was said.
   *
   * @param {Frame} frame
   * @param {{overlaps?: boolean}} [options]
   */
  take(frame, { overlaps = false } = {}) {
    if (frame.seq <= this.seq) return;
    this.seq = frame.seq;
    this.#origin ??= frame.time;
    this.now = Math.max(this.now, Math.round((frame.time - this.#origin) * 1e6) / 1e6);
    const event = /** @type {any} */ (frame.event); // what is new to us is let be
    if (typeof event.call_id === "string") this.#noteCall(event, overlaps);
    else if (typeof event.block === "number") this.#noteWords(event, overlaps);
    else this.#noteRun(event);
    for (const view of frame.arguments ?? []) this.#noteArgument(view, overlaps);
  }

  // Runs and turns

  /** @param {any} event */
  #noteRun(event) {
    switch (event.type) {
      case "turn_started":
        if (event.attempt > 1) this.#lose(event.turn);
        this.turns.push(new TurnTimes(event.turn, event.attempt ?? 1, this.now));
        this.#saysTurns = true;
        break;
      case "turn_completed":
        if ((event.parent_id ?? null) === null) this.#openTurn().endedAt = this.now;
        break;
      case "run_resumed":
        if (event.cause !== "crash") break;
        for (const id of event.interrupted ?? []) {
          const call = this.#byId.get(id);
          if (call !== undefined) call.interruptions += 1;
        }
        break;
      case "run_completed":
        this.end = "completed";
        break;
      case "run_failed":
        this.end = "failed";
        break;
      case "run_stopped":
        this.end = "stopped";
        break;
    }
  }

  /** The turn that goes on; one that was not told to begin did so when the last one ended. */
  #openTurn() {
    const last = this.turns.at(-1);
    if (last !== undefined && last.endedAt === null) return last;
    const next = new TurnTimes(this.turns.length + 1, 1, last?.endedAt ?? 0);
    this.turns.push(next);
    return next;
  }

  /** @param {number} turn */
  #lose(turn) {
    for (const lost of this.turns) {
      if (lost.turn === turn && !lost.isLost) {
        lost.isLost = true;
        loseAll(lost.blocks);
      }
    }
  }

  /**
   * Put a block where it belongs: below its sub-agent's call, else into its turn.
   *
   * @param {BlockTimes} block
   * @param {string | null} parent
   */
  #place(block, parent) {
    const call = parent === null ? undefined : this.#byId.get(parent);
    const turn = this.#saysTurns ? this.turns.at(-1) : undefined;
    (call ?? turn ?? this.#openTurn()).blocks.push(block);
  }

  // Words

  /**
   * @param {any} event
   * @param {boolean} overlaps
   */
  #noteWords(event, overlaps) {
    const kind = event.type === "text_delta" ? "text" : "thinking";
    const words = this.#wordsOf(event, kind);
    words.lastAt = this.now;
    if (event.type === "thinking_completed") words.isOver = true;
    else if (typeof event.text === "string" && !overlaps) begin(words, event.text);
  }

  /**
   * @param {any} event
   * @param {"text" | "thinking"} kind
   * @returns {WordTimes}
   */
  #wordsOf(event, kind) {
    const parent = event.parent_id ?? null;
    let blocks = this.#byBlock.get(parent);
    if (blocks === undefined) this.#byBlock.set(parent, (blocks = new Map()));
    const known = blocks.get(event.block);
    const begins = event.type === "thinking_started";
    if (known !== undefined && !known.isLost && !begins) return known;
    const words = new WordTimes(kind, this.now);
    blocks.set(event.block, words);
    this.words.push(words);
    this.#place(words, parent);
    return words;
  }

  // Calls

  /**
   * @param {any} event
   * @param {boolean} overlaps
   */
  #noteCall(event, overlaps) {
    if (event.type === "tool_call_started") {
      const call = new CallTimes(event.call_id, event.name, event.kind ?? "function", this.now);
      this.#place(call, event.parent_id ?? null); // before it is known: nobody is below itself
      this.#byId.set(event.call_id, call);
      this.calls.push(call);
      return;
    }
    const call = this.#byId.get(event.call_id);
    if (call === undefined) return;
    call.name = event.name; // a few servers send it in pieces
    switch (event.type) {
      case "tool_args_delta":
        call.lastAt = this.now;
        if (!call.isFreeText) break;
        call.text ??= new ArgumentTimes(call, [], this.now);
        if (!overlaps) begin(call.text, event.delta);
        break;
      case "tool_args_completed":
        this.#conclude(call, "complete");
        if (call.text !== null) call.text.settledAt = this.now;
        break;
      case "tool_args_invalid":
        this.#conclude(call, event.verdict);
        break;
      case "approval_requested":
        call.askedAt = this.now;
        break;
      case "approval_decided":
        call.decidedAt = this.now;
        call.decision = event.decision;
        break;
      case "tool_execution_started":
        call.executedAt.push(this.now);
        break;
      case "tool_call_completed":
      case "tool_call_failed":
        call.finishedAt = this.now;
        call.outcome = event.type === "tool_call_completed" ? "completed" : "failed";
        break;
    }
  }

  /**
   * @param {CallTimes} call
   * @param {string} verdict
   */
  #conclude(call, verdict) {
    call.endedAt = call.lastAt = this.now;
    call.verdict = verdict;
  }

  /**
   * @param {any} view
   * @param {boolean} overlaps
   */
  #noteArgument(view, overlaps) {
    const call = this.#byId.get(view.call_id);
    if (call === undefined) return;
    const path = /** @type {Key[]} */ (view.path);
    const last = /** @type {Key} */ (path.at(-1));
    /** @type {CallTimes | ArgumentTimes} */
    let above = call;
    for (const key of path.slice(0, -1)) {
      /** @type {ArgumentTimes | undefined} */
      const next = above.inside?.get(key);
      if (next === undefined) return; // its beginning was not seen
      above = next;
    }
    call.lastAt = this.now;
    const known = above.inside?.get(last);
    if (view.type === "argument_started" && known === undefined) {
      above.inside ??= new Map();
      above.inside.set(last, new ArgumentTimes(call, path, this.now));
    } else if (view.type === "argument_delta" && known !== undefined && !overlaps) {
      begin(known, view.text);
    } else if (view.type === "argument_completed" && known !== undefined) {
      known.settledAt ??= this.now;
      if (known.beginning === "" && isScalar(view.value)) begin(known, String(view.value));
    }
  }
}

/**
 * Keep how a text begins, as one line.
 *
 * @param {ArgumentTimes | WordTimes} times
 * @param {string} text
 */
function begin(times, text) {
  if (times.beginning.length >= LONGEST_BEGINNING) return;
  const known = (times.beginning + text.slice(0, LONGEST_BEGINNING)).replace(/[\t\n ]+/g, " ");
  times.beginning = known.trimStart().slice(0, LONGEST_BEGINNING);
}

/** @param {unknown} value */
function isScalar(value) {
  return value === null || typeof value !== "object";
}

/** @param {BlockTimes[]} blocks */
function loseAll(blocks) {
  const waiting = [...blocks];
  for (let block = waiting.pop(); block !== undefined; block = waiting.pop()) {
    block.isLost = true;
    if (block.kind === "call") waiting.push(...block.blocks);
  }
}
