/**
 * A client of argstream's server in one file, without dependencies: for browsers, and Node ≥ 20.3.
 *
 * Its one idea: a run is an object that lives. `Run` folds the frames that the server sends into
 * blocks (what the model says, thinks and calls) which grow in place and stay the same objects,
 * whatever connection the frames came over. `Following` keeps such a run up to date: it comes again
 * by itself where a connection was lost, and what its handlers are told is told once.
 *
 *     import { Client } from "./argstream.js";
 *     const { done } = new Client().converse("Write a poem to poem.txt", {
 *       onText: (block, text) => show(text),
 *       onArgumentText: (call, path, text) => show(call.name, path, text),
 *     });
 *     console.log((await done).status);
 *
 * In this order: types, Client and Following, Run and its blocks, streams, JSON.
 */

// What the server tells. Names of fields are the server's own here.

/** What JSON can say. Integers that a double cannot hold are BigInt.
 * @typedef {string | number | bigint | boolean | null | JsonValue[] | JsonObject} JsonValue */
/** @typedef {{ [key: string]: JsonValue }} JsonObject */
/** Where a value stands in the arguments: keys, and places in arrays.
 * @typedef {(string | number)[]} JsonPath */
/** @typedef {"object" | "array" | "string" | "number" | "boolean" | "null"} JsonKind */

/** @typedef {"running" | "paused" | "completed" | "failed" | "stopped"} RunStatus */
/** Who runs a call, and what its input is: `custom` and `code` are free text, the others JSON.
 * @typedef {"function" | "server" | "mcp" | "custom" | "code" | "patch" | "client"} CallKind */
/** Why a call is not run: what was written is not whole, or not valid.
 * @typedef {"truncated" | "malformed" | "rejected" | "aborted"} InvalidVerdict */
/** How a call ended to be written. @typedef {"complete" | InvalidVerdict} Verdict */
/** @typedef {"approved" | "edited" | "denied" | "expired" | "withdrawn"} ApprovalOutcome */
/** What an approval covers. @typedef {"call" | "rule" | "conversation"} ApprovalScope */

/** The tokens that turns used. A count is null if the provider did not report it.
 * @typedef {{ input_tokens: number | null, output_tokens: number | null,
 *   cache_read_tokens: number | null, cache_write_tokens: number | null,
 *   reasoning_tokens: number | null }} Usage */
/** Why arguments are not valid: which character of their text it is about, and which rule of a
 * schema was broken, where it was one.
 * @typedef {{ reason: string, message: string, offset: number | null, path: JsonPath,
 *   keyword: string | null }} ArgumentsError */

/** Of a text or a thought: its number among the blocks, and the call whose sub-agent it is of.
 * @typedef {{ block: number, parent_id: string | null }} OfWords */
/** @typedef {OfWords & { type: "text_delta", text: string }} TextDelta */
/** @typedef {OfWords & { type: "thinking_started" }} ThinkingStarted */
/** @typedef {OfWords & { type: "thinking_delta", text: string }} ThinkingDelta */
/** @typedef {OfWords & { type: "thinking_completed", text: string }} ThinkingCompleted */

/** Of a call. @typedef {{ call_id: string, name: string }} OfCall */
/** @typedef {OfCall & { type: "tool_call_started", index: number, kind: CallKind,
 *   parent_id: string | null }} ToolCallStarted */
/** @typedef {OfCall & { type: "tool_args_delta", delta: string }} ToolArgsDelta */
/** @typedef {OfCall & { type: "tool_args_completed",
 *   arguments: JsonObject | string }} ToolArgsCompleted */
/** @typedef {OfCall & { type: "tool_args_invalid", verdict: InvalidVerdict, raw: string,
 *   error: ArgumentsError }} ToolArgsInvalid */
/** A person must decide whether this call may run, until `expires_at` (seconds since 1970). The
 * digest stands for what is decided on: a decision must name it. The reason is why somebody is
 * asked, the rule that of the policy that asks, if it was one.
 * @typedef {OfCall & { type: "approval_requested", arguments: JsonObject, digest: string,
 *   reason: string, rule: string | null, expires_at: number | null,
 *   rule_digest: string }} ApprovalRequested */
/** It was decided whether the call may run, and with what in place of the model's arguments.
 * @typedef {OfCall & { type: "approval_decided", decision: ApprovalOutcome, reason: string,
 *   edited_arguments: JsonObject | null, always: ApprovalScope }} ApprovalDecided */
/** @typedef {OfCall & { type: "tool_execution_started", idempotency_key: string,
 *   attempt: number }} ToolExecutionStarted */
/** @typedef {OfCall & { type: "tool_output_delta", text: string }} ToolOutputDelta */
/** The arguments are those that it was run with.
 * @typedef {OfCall & { type: "tool_call_completed", arguments: JsonObject | string,
 *   result: JsonValue }} ToolCallCompleted */
/** @typedef {OfCall & { type: "tool_call_failed", error: JsonValue }} ToolCallFailed */
/** What becomes of a call, by its id.
 * @typedef {ToolArgsDelta | ToolArgsCompleted | ToolArgsInvalid | ApprovalRequested
 *   | ApprovalDecided | ToolExecutionStarted | ToolOutputDelta | ToolCallCompleted
 *   | ToolCallFailed} CallEvent */

/** @typedef {OfCall & { type: "argument_started", path: JsonPath,
 *   kind: JsonKind }} ArgumentStarted */
/** @typedef {OfCall & { type: "argument_delta", path: JsonPath, text: string }} ArgumentDelta */
/** @typedef {OfCall & { type: "argument_completed", path: JsonPath,
 *   value: JsonValue }} ArgumentCompleted */
/** What is told of arguments while they are written.
 * @typedef {ArgumentStarted | ArgumentDelta | ArgumentCompleted} ArgumentEvent */

/** @typedef {{ type: "turn_started", turn: number, attempt: number }} TurnStarted */
/** @typedef {{ type: "turn_completed", stop_reason: string | null, usage: Usage,
 *   parent_id: string | null, characters_read: number | null }} TurnCompleted */
/** @typedef {{ type: "run_started", run_id: string, prompt: string, user: string }} RunStarted */
/** @typedef {{ type: "run_paused", run_id: string, pending: ApprovalRequested[] }} RunPaused */
/** `interrupted` are the calls that were running when it was cut off.
 * @typedef {{ type: "run_resumed", run_id: string, cause: "pause" | "crash",
 *   interrupted: string[], note: string }} RunResumed */
/** @typedef {{ type: "run_completed", run_id: string, result: JsonValue, usage: Usage,
 *   stop_reason: string | null }} RunCompleted */
/** `usage` is that of all turns, including one that did not complete. Older logs do not have it.
 * @typedef {{ type: "run_failed", run_id: string, code: string, message: string,
 *   usage?: Usage }} RunFailed */
/** @typedef {{ type: "run_stopped", run_id: string, reason: string,
 *   usage?: Usage }} RunStopped */
/** @typedef {RunCompleted | RunFailed | RunStopped} RunEnd */
/** @typedef {{ type: "stream_failed", code: string, message: string,
 *   retryable: boolean }} StreamFailed */

/** Of a block that a snapshot tells of. @typedef {{ turn: number, is_lost: boolean }} Seen */
/** @typedef {Seen & OfWords & { type: "text", text: string }} TextSnapshot */
/** @typedef {Seen & OfWords & { type: "thinking", text: string, is_over: boolean }} ThinkingSnapshot */
/** @typedef {Seen & OfCall & { type: "call", index: number, kind: CallKind,
 *   parent_id: string | null, raw: string, verdict: Verdict | null,
 *   arguments: JsonObject | string | null, error: ArgumentsError | null,
 *   request: ApprovalRequested | null, decision: ApprovalDecided | null, attempts: number,
 *   output: string, outcome: "completed" | "failed" | null, result: JsonValue }} CallSnapshot */
/** All that was told of a run up to here: it stands for everything before it.
 * @typedef {{ type: "run_snapshot", run_id: string, status: RunStatus, prompt: string,
 *   blocks: (TextSnapshot | ThinkingSnapshot | CallSnapshot)[], turns: number, usage: Usage,
 *   stop_reason: string | null, end: RunEnd | null }} RunSnapshot */

/** What happens in a run; `type` says what it is.
 * @typedef {TextDelta | ThinkingStarted | ThinkingDelta | ThinkingCompleted | ToolCallStarted
 *   | CallEvent | TurnStarted | TurnCompleted | RunStarted | RunPaused | RunResumed | RunEnd
 *   | RunSnapshot | StreamFailed} RunEvent */
/**
 * What is told at once.
 * @typedef {object} Frame
 * @property {number} seq The place in the run's log: what a client names to go on after it.
 * @property {number} time When it happened, in seconds since 1970.
 * @property {RunEvent} event
 * @property {ArgumentEvent[]} [arguments] What the event says of arguments.
 * @property {string} [conversation_id] The conversation; in snapshots only.
 * @property {string} [agent] In snapshots only.
 */
/** What is known of a run without reading it: how the message begins that it follows from, and what
 * somebody must decide on, too.
 * @typedef {{ run: string, conversation: string, agent: string, status: RunStatus, seq: number,
 *   created: number, updated: number, is_driven: boolean, prompt: string,
 *   pending: { call_id: string, digest: string }[] }} RunInfo */
/** The same with the requests that it waits for, whole.
 * @typedef {Omit<RunInfo, "pending"> & { pending: ApprovalRequested[] }} RunDetails */
/**
 * @typedef {object} Decision
 * @property {"approve" | "deny"} decision
 * @property {string} digest Of the request that is decided on.
 * @property {JsonObject} [arguments] What is to run instead of the model's arguments.
 * @property {ApprovalScope} [always]
 * @property {string} [reason]
 */

// What a client is told, and what it may choose.

/**
 * How a connection is: `waiting` until it is tried again, `closed` for good.
 * @typedef {object} Connection
 * @property {"connecting" | "open" | "waiting" | "closed"} state
 * @property {number | null} retryIn In how many seconds it is tried again, while it waits.
 * @property {Error | null} problem What was wrong, if anything was.
 */
/**
 * All are optional, and each thing is told once, over any number of connections and snapshots.
 * Text that was replaced by other text, and arguments that a person has changed, are not told as if
 * they had grown: the blocks always have what holds.
 * @typedef {object} Handlers
 * @property {(block: Text, text: string) => void} [onText] The model says the next piece.
 * @property {(block: Thinking, text: string) => void} [onThinking] It thinks the next piece.
 * @property {(call: Call) => void} [onToolStart] It calls a tool: nothing but the name is known.
 * @property {(call: Call, argument: Argument) => void} [onArgumentStart] A value has begun.
 * @property {(call: Call, path: JsonPath, text: string) => void} [onArgumentText]
 *   A string in the arguments has grown by this much.
 * @property {(call: Call, path: JsonPath, value: JsonValue) => void} [onArgument]
 *   A value in the arguments is settled.
 * @property {(call: Call, args: JsonObject | string) => void} [onBlock] The arguments are whole.
 * @property {(call: Call, verdict: InvalidVerdict, error: ArgumentsError) => void} [onInvalid]
 *   They will never be: this is not run.
 * @property {(call: Call, request: ApprovalRequested) => void} [onApproval] A person must decide.
 * @property {(call: Call, decision: ApprovalDecided) => void} [onDecision] It was decided.
 * @property {(call: Call, text: string) => void} [onOutput] The tool says the next piece.
 * @property {(call: Call, outcome: "completed" | "failed", result: JsonValue) => void} [onResult]
 * @property {(run: Run) => void} [onPause] Nothing happens until a person has decided.
 * @property {(run: Run) => void} [onDone] The run is over.
 * @property {(run: Run, blocks: Block[]) => void} [onChange]
 *   After each frame, when all else was told: these blocks have changed.
 * @property {(frame: Frame) => void} [onFrame] Each frame as it came, before all else.
 * @property {(connection: Connection) => void} [onConnection]
 */
/**
 * How a lost connection is made again. Seconds throughout.
 * @typedef {object} Retrying
 * @property {number} [first] How long to wait at first, if the server does not say; 0.25.
 * @property {number} [most] How long at most; 10.
 * @property {number} [silence] After how much silence a connection counts as lost; 60. The server
 *   says something every 15.
 * @property {() => number} [random] Of chance, from 0 to 1, so that not all come at once.
 * @property {(seconds: number, signal: AbortSignal) => Promise<void>} [wait]
 *   Waits so long, or until the signal is aborted.
 */
/**
 * @typedef {object} ClientOptions
 * @property {string | URL} [base] Where the server is; by default, above the folder of this file.
 * @property {string} [token] What the server wants to be shown.
 * @property {typeof fetch} [fetch]
 * @property {Retrying} [retry]
 */
/** What a request is made of.
 * @typedef {{ method?: string, query?: Record<string, string | number | undefined>,
 *   body?: JsonValue | object, headers?: Record<string, string>, signal?: AbortSignal }} Asking */
/** Opens a stream of a run: of its beginning, or after what is known of it.
 * @typedef {(following: Following, signal: AbortSignal) => Promise<Response>} Opening */

const EVENTS = { accept: "text/event-stream" };
/** What was said before a run is in the runs before it. */
const WITHOUT_HISTORY = { history: "false" };

/** Talks to a server. What the server refuses is thrown as a `ServerProblem`. */
export class Client {
  #base;
  #token;
  #fetch;
  #retry;

  /** @param {ClientOptions} [options] */
  constructor({ base = new URL("..", import.meta.url), token, fetch, retry = {} } = {}) {
    this.#base = new URL(base, globalThis.location?.href);
    if (!this.#base.pathname.endsWith("/")) this.#base.pathname += "/";
    this.#token = token;
    this.#fetch = fetch;
    this.#retry = retry;
  }

  /**
   * Begins a run.
   * @param {string} message
   * @param {{ conversation?: string }} [options] The conversation that it goes on with.
   * @returns {Promise<{ run: string, conversation: string }>}
   */
  async start(message, { conversation = "" } = {}) {
    return await this.#json(["runs"], { body: { message, conversation } });
  }

  /**
   * Begins a run, and follows it. What fails before it has begun is final: nothing is sent twice.
   * @param {string} message
   * @param {{ conversation?: string } & Handlers} [options]
   * @returns {Following}
   */
  converse(message, { conversation = "", ...handlers } = {}) {
    const body = { message, conversation };
    let isSent = false;
    /** @type {Opening} */
    const opening = (following, signal) => {
      if (isSent) return this.#events(following, signal);
      isSent = true;
      return this.#ask(["runs"], { query: WITHOUT_HISTORY, body, headers: EVENTS, signal });
    };
    return new Following("", opening, handlers, this.#retry);
  }

  /**
   * Follows a run: all that happened so far, and then what happens.
   * @param {string} runId
   * @param {Handlers} [handlers]
   * @returns {Following}
   */
  follow(runId, handlers = {}) {
    return new Following(runId, this.#events, handlers, this.#retry);
  }

  /**
   * Decides on calls that a run waits for: on all of these, or none.
   * @param {string} runId
   * @param {{ [callId: string]: Decision }} decisions
   */
  async decide(runId, decisions) {
    await this.#json(["runs", runId, "decisions"], { body: { decisions } });
  }

  /**
   * Ends a run.
   * @param {string} runId
   * @param {string} [reason]
   */
  async stop(runId, reason = "") {
    await this.#json(["runs", runId, "stop"], { body: { reason } });
  }

  /**
   * Deletes a run.
   * @param {string} runId
   */
  async forget(runId) {
    await this.#json(["runs", runId], { method: "DELETE" });
  }

  /**
   * Lists runs: those first in which something happened last.
   * @param {{ status?: RunStatus, conversation?: string, limit?: number }} [query]
   * @returns {Promise<RunInfo[]>}
   */
  async runs({ status, conversation, limit } = {}) {
    return (await this.#json(["runs"], { query: { status, conversation, limit } })).runs;
  }

  /**
   * Says what is known of a run.
   * @param {string} runId
   * @returns {Promise<RunDetails>}
   */
  async run(runId) {
    return await this.#json(["runs", runId]);
  }

  /**
   * Reads the log of a run as far as it goes: each thing that happened, with its time.
   * @param {string} runId
   * @param {{ after?: number }} [options] The seq to begin after.
   * @returns {AsyncGenerator<Frame, void, void>}
   */
  async *log(runId, { after } = {}) {
    const reading = new AbortController();
    const headers = { accept: "application/x-ndjson" };
    const asking = { query: { ...WITHOUT_HISTORY, after }, headers, signal: reading.signal };
    try {
      const response = await this.#ask(["runs", runId, "log"], asking);
      let rest = "";
      for await (const piece of piecesOf(response)) {
        const lines = piece.split("\n");
        lines[0] = rest + lines[0];
        rest = lines.pop() ?? "";
        for (const line of lines) yield parseJson(line);
      }
      if (rest !== "") throw new ConnectionLost("the log is cut off");
    } finally {
      reading.abort();
    }
  }

  /**
   * Says whether the server wants a token that it was not shown, whether it was shown the one that
   * it wants, and which agent it serves.
   * @returns {Promise<{ needs_token: boolean, signed_in: boolean, agent: string }>}
   */
  async session() {
    return await this.#json(["session"]);
  }

  /** Has a browser keep the token as a cookie that no script can read. @param {string} token */
  async signIn(token) {
    await this.#json(["session"], { body: { token } });
  }

  /** Has it forget that. */
  async signOut() {
    await this.#json(["session"], { method: "DELETE" });
  }

  /** @type {Opening} */
  #events = ({ runId, run }, signal) => {
    const query = { ...WITHOUT_HISTORY, after: run.seq || undefined };
    const headers = run.seq ? { ...EVENTS, "last-event-id": String(run.seq) } : EVENTS;
    return this.#ask(["runs", runId, "events"], { query, headers, signal });
  };

  /** @param {string[]} path @param {Asking} [asking] */
  async #json(path, asking) {
    const response = await this.#ask(path, asking);
    const text = await response.text().catch(lost);
    return text === "" ? undefined : parseJson(text);
  }

  /** @param {string[]} path @param {Asking} [asking] */
  async #ask(path, { method, query = {}, body, headers, signal } = {}) {
    const sent = new Headers(headers);
    if (this.#token !== undefined) sent.set("authorization", `Bearer ${this.#token}`);
    if (body !== undefined) sent.set("content-type", "application/json");
    const ask = this.#fetch ?? globalThis.fetch;
    const response = await ask(this.#url(path, query), {
      method: method ?? (body === undefined ? "GET" : "POST"),
      headers: sent,
      body: body === undefined ? null : toJson(body),
      signal: signal ?? null,
      cache: "no-store",
    }).catch(lost);
    if (!response.ok) throw await problemOf(response);
    return response;
  }

  /** @param {string[]} path @param {Record<string, string | number | undefined>} query */
  #url(path, query) {
    // A URL would take these for another path.
    const unfit = path.find((part) => ["", ".", ".."].includes(part));
    if (unfit !== undefined) throw new ServerProblem(404, { detail: `there is no run '${unfit}'` });
    const url = new URL(`api/${path.map(encodeURIComponent).join("/")}`, this.#base);
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    return url;
  }
}

/** A run that is followed, until it is over, it was closed, or the server refuses. */
export class Following {
  /** The run: kept up to date. */
  run;
  /** Settles when the run is over, or this was closed; rejects with what was final: a
   * `ServerProblem`, as a rule. @type {Promise<Run>} */
  done;
  #runId;
  #opening;
  #handlers;
  #retry;
  /** How long to wait at first, as the server has said in the last stream.
   * @type {number | null} */
  #told = null;
  #closing = new AbortController();
  #resting = new AbortController();

  /**
   * Made by a `Client`.
   * @param {string} runId
   * @param {Opening} opening
   * @param {Handlers} handlers
   * @param {Retrying} retry
   */
  constructor(runId, opening, handlers, retry) {
    this.run = new Run(runId, handlers);
    this.#runId = runId;
    this.#opening = opening;
    this.#handlers = handlers;
    const usual = { first: 0.25, most: 10, silence: 60, random: Math.random, wait };
    this.#retry = { ...usual, ...retry };
    this.done = this.#follow();
  }

  /** The run's id; empty while it is not known. */
  get runId() {
    return this.#runId || this.run.id;
  }

  /** Follows it no more, and tells nothing more of it. The run itself goes on. */
  close() {
    this.#closing.abort();
    this.run.hush();
  }

  /** Tries at once, if it waits to try again. */
  reconnect() {
    this.#resting.abort();
  }

  async #follow() {
    await null; // so that who has asked for it has it before anything is told
    try {
      await this.#comeAgain();
    } catch (error) {
      if (!this.#closing.signal.aborted) {
        this.#tell({ state: "closed", problem: /** @type {Error} */ (error) });
        throw error;
      }
    }
    this.#tell({ state: "closed" });
    return this.run;
  }

  async #comeAgain() {
    let waits = 0;
    while (!this.#closing.signal.aborted) {
      const { seq } = this.run;
      let problem = null;
      try {
        this.#tell({ state: "connecting" });
        if (await this.#connect()) return;
      } catch (error) {
        const isRefusal = error instanceof ServerProblem;
        const mayPass = isRefusal ? error.isPassing : error instanceof ConnectionLost;
        if (!mayPass || !this.runId) throw error;
        problem = /** @type {Error} */ (error);
      }
      if (this.run.seq > seq) waits = 0;
      if (!this.#closing.signal.aborted) await this.#rest(waits, problem);
      waits += 1;
    }
  }

  /**
   * Reads one stream to its end.
   * @returns {Promise<boolean>} Whether there is no more to come.
   */
  async #connect() {
    const connection = new AbortController();
    const giveUp = () => connection.abort(new Error("nothing was heard for too long"));
    const listen = () => setTimeout(giveUp, this.#retry.silence * 1000);
    let silence = listen();
    try {
      const signal = AbortSignal.any([this.#closing.signal, connection.signal]);
      const response = await this.#opening(this, signal);
      if (response.status === 204) return true;
      this.#meet(response);
      this.#tell({ state: "open" });
      const reader = new EventStreamReader();
      for await (const piece of piecesOf(response)) {
        clearTimeout(silence);
        silence = listen();
        for (const data of reader.feed(piece)) {
          this.run.take(parseJson(data));
          if (this.#closing.signal.aborted) return true;
        }
        if (this.run.end) return true;
        this.#told = reader.retry;
      }
      return false;
    } finally {
      clearTimeout(silence);
      connection.abort();
    }
  }

  /** Takes what the head of an answer says. @param {Response} response */
  #meet({ status, headers }) {
    if (!headers.get("content-type")?.startsWith("text/event-stream")) {
      const detail = "what has answered is no server of argstream: it sent no stream of events";
      throw new ServerProblem(status, { detail });
    }
    this.run.id ||= headers.get("x-argstream-run") ?? "";
    this.run.conversation ||= decodeURIComponent(headers.get("x-argstream-conversation") ?? "");
  }

  /**
   * Waits until it is to be tried again.
   * @param {number} waits How often it was waited since anything was heard.
   * @param {Error | null} problem
   */
  async #rest(waits, problem) {
    const { most, random, wait: waiting } = this.#retry;
    const first = this.#told ?? this.#retry.first;
    const longest = Math.min(first * 2 ** waits, Math.max(most, first));
    const after = problem instanceof ServerProblem ? (problem.retryAfter ?? 0) : 0;
    const seconds = Math.max(after, longest * (0.5 + random() / 2));
    const resting = new AbortController();
    const { signal } = resting;
    this.#resting = resting;
    globalThis.addEventListener?.("online", () => resting.abort(), { signal });
    this.#tell({ state: "waiting", retryIn: seconds, problem });
    await waiting(seconds, AbortSignal.any([this.#closing.signal, signal]));
    resting.abort(); // so that nothing listens any more
  }

  /** @param {Partial<Connection> & Pick<Connection, "state">} connection */
  #tell(connection) {
    tell(this.#handlers, "onConnection", [{ retryIn: null, problem: null, ...connection }]);
  }
}

/**
 * Calls a handler. What it throws is reported as what nobody has caught, and harms nobody else.
 * @template {keyof Handlers} Name
 * @param {Handlers} handlers
 * @param {Name} name
 * @param {Parameters<Required<Handlers>[Name]>} words
 */
function tell(handlers, name, words) {
  const handler = /** @type {((...words: unknown[]) => void) | undefined} */ (handlers[name]);
  try {
    handler?.(...words);
  } catch (error) {
    if (typeof reportError === "function") reportError(error);
    else
      queueMicrotask(() => {
        throw error;
      });
  }
}

/** @param {number} seconds @param {AbortSignal} signal @returns {Promise<void>} */
function wait(seconds, signal) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(end, seconds * 1000);
    if (signal.aborted) end();
    else signal.addEventListener("abort", end);
  });
}

/** The server cannot be reached, or the connection broke. */
export class ConnectionLost extends Error {
  /** @param {unknown} cause */
  constructor(cause) {
    const why = cause instanceof Error ? cause.message : cause;
    super(`the server cannot be reached: ${why}`, { cause });
    this.name = "ConnectionLost";
  }
}

/** @param {unknown} cause @returns {never} */
function lost(cause) {
  throw new ConnectionLost(cause);
}

/** A request that the server refused: its message is why, in words. */
export class ServerProblem extends Error {
  /**
   * @param {number} status
   * @param {{ type?: string, title?: string, detail?: string }} told
   * @param {number | null} [retryAfter]
   */
  constructor(status, { type = "about:blank", title = "", detail = "" }, retryAfter = null) {
    super(detail || title || `the server answered with ${status}`);
    this.name = "ServerProblem";
    this.status = status;
    /** What it is, for programs, such as `urn:argstream:unknown-run`. */
    this.type = type;
    this.title = title;
    this.detail = this.message;
    /** In how many seconds it may be tried again, if the server has said so. */
    this.retryAfter = retryAfter;
  }

  /** Whether it may pass by itself. */
  get isPassing() {
    return this.status >= 500 || [408, 425, 429].includes(this.status);
  }
}

/** @param {Response} response */
async function problemOf(response) {
  const { status, statusText, headers } = response;
  const text = await response.text().catch(lost);
  const isProblem = headers.get("content-type")?.startsWith("application/problem+json");
  const told = isProblem ? parseJson(text) : { title: statusText };
  return new ServerProblem(status, told, secondsOf(headers.get("retry-after")));
}

/** Reads the header Retry-After: seconds, or a date. @param {string | null} header */
function secondsOf(header) {
  if (header === null) return null;
  if (/^\d+$/.test(header)) return Number(header);
  const date = Date.parse(header);
  return Number.isNaN(date) ? null : Math.max(0, (date - Date.now()) / 1000);
}

// A run, and the blocks that it consists of.

/** Seconds since 1970; null if it was not, and if a snapshot told of it: that has no times.
 * @typedef {number | null} Time */
/** @typedef {Text | Thinking | Call} Block */
/** What is told of a block as it begins.
 * @typedef {Pick<TextSnapshot | ThinkingSnapshot, "type" | "turn" | keyof OfWords>
 *   | Pick<CallSnapshot, "type" | "turn" | "parent_id" | "index" | "kind" | keyof OfCall>} Beginning */
/** What is told of a block, in the words of a snapshot. An event tells a part of it.
 * @typedef {Partial<Omit<ThinkingSnapshot, "type"> & Omit<CallSnapshot, "type">>} Told */

/**
 * A run, as far as it has come: frames go in, and what is there grows in place.
 *
 * It folds as the server does: whoever has taken all frames, and whoever has taken a snapshot and
 * the frames after it, have the same. Both go the same way: what an event says of a block is a part
 * of what a snapshot says of it, and only what was not known before is news.
 */
export class Run {
  conversation = "";
  agent = "";
  /** @type {RunStatus} */ status = "running";
  /** The message that it follows from. */
  prompt = "";
  /** What the model has said, thought and called, in the order in which it began.
   * @type {Block[]} */
  blocks = [];
  /** The calls by their ids: the newest, where an id was used again.
   * @type {Map<string, Call>} */
  calls = new Map();
  /** How many turns have begun. */
  turns = 0;
  /** Of the turns that are complete; of all turns when the run is over. @type {Usage} */
  usage = {
    input_tokens: null,
    output_tokens: null,
    cache_read_tokens: null,
    cache_write_tokens: null,
    reasoning_tokens: null,
  };
  /** Why the last turn ended. @type {string | null} */
  stopReason = null;
  /** How it ended, if it has. @type {RunEnd | null} */
  end = null;
  /** The place in the log that is known; 0 if nothing is. */
  seq = 0;
  /** When that was, in seconds since 1970. */
  time = 0;
  /** @type {Time} */ startedAt = null;
  /** @type {Time} */ endedAt = null;

  /** Texts and thoughts by number and parent: the newest, after a lost attempt.
   * @type {Map<string, Text | Thinking>} */
  #words = new Map();
  #nextKey = 0;
  /** @type {Set<Block>} */ #changed = new Set();
  #handlers;
  /** What is to be told when all of a frame was taken.
   * @type {{ name: keyof Handlers, words: any }[]} */
  #news = [];
  /** When what is told now has happened. @type {Time} */
  #now = null;

  /**
   * @param {string} [id]
   * @param {Handlers} [handlers] Who is told what is new in the frames that it takes.
   */
  constructor(id = "", handlers = {}) {
    this.id = id;
    this.#handlers = handlers;
  }

  /**
   * Takes the next frame; one that was taken already changes nothing.
   * @param {Frame} frame
   * @returns {Block[]} The blocks that have changed.
   */
  take(frame) {
    const { event, seq, time } = frame;
    const isSnapshot = event.type === "run_snapshot"; // which tells what holds, whatever was before
    if (seq <= this.seq && !isSnapshot) return [];
    this.seq = seq;
    this.time = time;
    this.#now = isSnapshot ? null : time;
    this.#changed.clear();
    this.#tell("onFrame", frame);
    if (isSnapshot) this.#meet(event, frame);
    else this.#happen(event, frame.arguments ?? []);
    const blocks = [...this.#changed];
    this.#tell("onChange", this, blocks);
    for (const { name, words } of this.#news.splice(0)) tell(this.#handlers, name, words);
    return blocks;
  }

  /** Tells its handlers nothing more. */
  hush() {
    this.#handlers = {};
  }

  /**
   * @template {keyof Handlers} Name
   * @param {Name} name
   * @param {Parameters<Required<Handlers>[Name]>} words
   */
  #tell(name, ...words) {
    if (this.#handlers[name]) this.#news.push({ name, words });
  }

  /** @param {Exclude<RunEvent, RunSnapshot>} event @param {ArgumentEvent[]} views */
  #happen(event, views) {
    switch (event.type) {
      case "text_delta":
      case "thinking_delta":
        return this.#grow(this.#open(event), event.text);
      case "thinking_started":
        return this.#begin({ ...event, type: "thinking", turn: this.turns });
      case "thinking_completed":
        return this.#learn(this.#open(event), { text: event.text, is_over: true });
      case "tool_call_started":
        return this.#begin({ ...event, type: "call", turn: this.turns });
      case "turn_started":
        this.turns = event.turn;
        if (event.attempt > 1) this.#lose(event.turn);
        break;
      case "turn_completed":
        this.usage = sum(this.usage, event.usage);
        if (event.parent_id === null) this.stopReason = event.stop_reason;
        break;
      case "run_started":
        this.id = event.run_id;
        this.prompt = event.prompt;
        this.startedAt = this.#now;
        break;
      case "run_paused":
        return this.#become("paused");
      case "run_resumed":
        return this.#become("running");
      case "run_completed":
        return this.#become("completed", event);
      case "run_failed":
      case "run_stopped":
        if (event.usage && isKnown(event.usage)) this.usage = event.usage;
        return this.#become(event.type === "run_failed" ? "failed" : "stopped", event);
      default: {
        const call = "call_id" in event && this.calls.get(event.call_id);
        if (call) this.#happenTo(call, event, views);
      }
    }
  }

  /** @param {Call} call @param {CallEvent} event @param {ArgumentEvent[]} views */
  #happenTo(call, event, views) {
    this.#changed.add(call);
    this.#learn(call, toldBy(event));
    if (event.type === "tool_args_delta") {
      const { delta: text } = event;
      call.raw += text;
      if (call.isFreeText) views = [{ ...event, type: "argument_delta", path: [], text }];
      for (const view of views) this.#write(call, view);
    } else if (event.type === "tool_output_delta") {
      this.#grow(call, event.text);
    }
  }

  /** Becomes what a snapshot tells, in place. @param {RunSnapshot} snapshot @param {Frame} frame */
  #meet(snapshot, { conversation_id, agent, arguments: views = [] }) {
    this.id = snapshot.run_id;
    this.prompt = snapshot.prompt;
    this.conversation = conversation_id ?? this.conversation;
    this.agent = agent ?? this.agent;
    this.turns = snapshot.turns;
    this.usage = snapshot.usage;
    this.stopReason = snapshot.stop_reason;
    this.#words.clear();
    this.calls.clear();
    for (const [place, seen] of snapshot.blocks.entries()) {
      if (!isAbout(seen, this.blocks[place])) this.#dropFrom(place);
      const block = this.blocks[place] ?? this.#begin(seen);
      this.#index(block);
      this.#learn(block, seen, seen.type === "call" ? treeIn(seen, views) : null);
    }
    this.#dropFrom(snapshot.blocks.length);
    this.#become(snapshot.status, snapshot.end);
  }

  /** @param {RunStatus} status @param {RunEnd | null} [end] */
  #become(status, end = this.end) {
    if (status === "paused" && this.status !== "paused") this.#tell("onPause", this);
    if (end && !this.end) this.#tell("onDone", this);
    this.endedAt = end && (this.endedAt ?? this.time);
    this.status = status;
    this.end = end;
  }

  /** An attempt of a turn was cut off. The next may use the same numbers and ids.
   * @param {number} turn */
  #lose(turn) {
    for (const block of this.blocks.toReversed()) {
      if (block.turn !== turn) break;
      this.#learn(block, { is_lost: true });
    }
  }

  /** Lets go of what a snapshot knows nothing of: the end of a log can be lost with its machine.
   * @param {number} place */
  #dropFrom(place) {
    for (const block of this.blocks.splice(place)) this.#learn(block, { is_lost: true });
  }

  /** @param {Beginning} told */
  #begin(told) {
    const key = this.#nextKey++;
    const block =
      told.type === "call" ? new Call(key, told)
      : told.type === "text" ? new Text(key, told)
      : new Thinking(key, told);
    this.blocks.push(block);
    this.#index(block);
    this.#changed.add(block);
    if (block.type !== "call") return block;
    block.startedAt = this.#now;
    this.#tell("onToolStart", block);
    if (block.isFreeText) {
      block.root.startedAt = this.#now;
      this.#tell("onArgumentStart", block, block.root);
    }
    return block;
  }

  /** @param {Block} block */
  #index(block) {
    if (block.type === "call") this.calls.set(block.id, block);
    else this.#words.set(`${block.block} ${block.parent ?? ""}`, block);
  }

  /** Gives the block that grows; of texts it is not told that they begin.
   * @param {TextDelta | ThinkingDelta | ThinkingCompleted} event */
  #open({ type, block, parent_id }) {
    const known = this.#words.get(`${block} ${parent_id ?? ""}`);
    if (known && !known.isLost) return known;
    const kind = type === "text_delta" ? "text" : "thinking";
    const begun = this.#begin({ type: kind, block, parent_id, turn: this.turns });
    return /** @type {Text | Thinking} */ (begun);
  }

  /** The model says or thinks the next piece, or the tool of a call does.
   * @param {Block} block @param {string} text */
  #grow(block, text) {
    if (text === "") return;
    this.#changed.add(block);
    if (block.type === "call") {
      block.output += text;
      this.#tell("onOutput", block, text);
      return;
    }
    block.text += text;
    if (block.type === "text") this.#tell("onText", block, text);
    else this.#tell("onThinking", block, text);
  }

  /** Takes all that was said, if it is told: it goes on from what is known, as a rule.
   * @param {Block} block @param {string | undefined} text */
  #growTo(block, text) {
    if (text === undefined) return;
    const known = block.type === "call" ? block.output : block.text;
    if (text.startsWith(known)) this.#grow(block, text.slice(known.length));
    else if (block.type === "call") this.#set(block, "output", text);
    else this.#set(block, "text", text);
  }

  // What is told of a block. What is not told stays as it is, and what is known already is no news.

  /**
   * @param {Block} block
   * @param {Told} told
   * @param {Argument | null} [tree] Arguments that are not whole, as a snapshot tells them.
   */
  #learn(block, told, tree = null) {
    this.#set(block, "isLost", told.is_lost);
    if (block.type === "call") {
      this.#learnCall(block, told, tree);
      return;
    }
    if (block.type === "thinking") this.#set(block, "isOver", told.is_over);
    this.#growTo(block, told.text);
  }

  /** @param {Call} call @param {Told} told @param {Argument | null} tree */
  #learnCall(call, told, tree) {
    this.#set(call, "name", told.name);
    this.#set(call, "raw", told.raw);
    this.#set(call, "error", told.error);
    const written = this.#learnArguments(call, told, tree);
    if (this.#set(call, "verdict", told.verdict)) {
      call.completedAt = this.#now;
      const { verdict, error } = call;
      if (verdict === "complete" && written !== null) this.#tell("onBlock", call, written);
      else if (verdict && verdict !== "complete" && error) {
        this.#tell("onInvalid", call, verdict, error);
      }
    }
    if (this.#set(call, "request", told.request)) {
      call.requestedAt = this.#now;
      if (call.request) this.#tell("onApproval", call, call.request);
    }
    if (this.#set(call, "decision", told.decision)) {
      call.decidedAt = this.#now;
      if (call.decision) this.#tell("onDecision", call, call.decision);
    }
    if (this.#set(call, "attempts", told.attempts)) call.executedAt = this.#now;
    this.#growTo(call, told.output);
    this.#set(call, "result", told.result);
    if (this.#set(call, "outcome", told.outcome)) {
      call.endedAt = this.#now;
      if (call.outcome) this.#tell("onResult", call, call.outcome, call.result);
    }
  }

  /**
   * Sets a field, if it is told.
   * @template {Block} Kind
   * @template {keyof Kind} Field
   * @param {Kind} block
   * @param {Field} field
   * @param {Kind[Field] | undefined} value
   * @returns {boolean} Whether it is news.
   */
  #set(block, field, value) {
    if (value === undefined || isSame(block[field], value)) return false;
    block[field] = value;
    this.#changed.add(block);
    return true;
  }

  // Arguments

  /** @param {Call} call @param {ArgumentEvent} view */
  #write(call, view) {
    const argument = write(call.root, view, this.#now);
    if (view.type === "argument_started") this.#tell("onArgumentStart", call, argument);
    else if (view.type === "argument_delta") {
      this.#tell("onArgumentText", call, argument.path, view.text);
    } else this.#tell("onArgument", call, argument.path, view.value);
  }

  /** Takes arguments, and gives those that the model wrote, if they are told whole: they go on from
   * what is known. What a person made of them replaces it: that is told as a decision, not here.
   * @param {Call} call @param {Told} told @param {Argument | null} tree */
  #learnArguments(call, told, tree) {
    const { root } = call;
    const { arguments: args = null, request, decision } = told;
    const written = (decision?.edited_arguments && request?.arguments) ?? args;
    if (written !== null && !root.isDone) this.#graft(call, root, treeOf(null, [], written));
    if (args !== null && args !== root.value) this.#graft(call, root, treeOf(null, [], args));
    if (tree) this.#graft(call, root, tree);
    if (told.arguments !== undefined) call.arguments = args;
    return written;
  }

  /**
   * Makes a part of the arguments equal to another in place, and tells what is new.
   * @param {Call} call
   * @param {Argument} known
   * @param {Argument} other
   * @param {boolean} [isNews] Whether it goes on from what was told.
   */
  #graft(call, known, other, isNews = true) {
    isNews &&= !known.isDone;
    const isPart = known.key !== null || call.isFreeText; // of all of a JSON text nothing is told
    const keys = new Set(other.children.map((child) => child.key));
    const isKept = known.children.every((child) => keys.has(child.key));
    const isSameKind = known.kind === other.kind;
    const isWhole = known.isDone === other.isDone && known.text === other.text;
    if (!isSameKind || !isKept || !isWhole) this.#changed.add(call);

    if (!isSameKind) {
      const isFirst = known.kind === null;
      known.kind = other.kind;
      known.text = "";
      known.children = [];
      known.startedAt ??= this.#now;
      if (isNews && isPart && isFirst) this.#tell("onArgumentStart", call, known);
    }
    const { path, text } = known;
    known.text = other.text;
    if (isNews && other.text !== text && other.text.startsWith(text)) {
      this.#tell("onArgumentText", call, path, other.text.slice(text.length));
    }
    const before = new Map(known.children.map((child) => [child.key, child]));
    const after = other.children.map((child) => {
      const same = before.get(child.key) ?? new Argument(child.key, child.path);
      this.#graft(call, same, child, isNews);
      return same;
    });
    // The order in which it was written is kept, unless something of it is gone. An object of
    // JavaScript would not keep it: there, keys that are numbers come first.
    known.children = isKept ? [...new Set([...known.children, ...after])] : after;
    known.value = other.value;
    if (known.isDone !== other.isDone) {
      known.isDone = other.isDone;
      known.doneAt = other.isDone ? this.#now : null;
      if (isNews && isPart) this.#tell("onArgument", call, path, other.value ?? null);
    }
  }
}

/** What all blocks are. */
class BaseBlock {
  /** Whether its turn was cut off and began again: the model does not know of it. */
  isLost = false;

  /** @param {number} key @param {{ parent_id: string | null, turn: number }} told */
  constructor(key, { parent_id, turn }) {
    /** Its place in the run; no other block of the run has the same. */
    this.key = key;
    /** The id of the call whose sub-agent this is of; null if it is of the agent itself. */
    this.parent = parent_id;
    /** Which turn of the run it is of; 0 if the run does not say when turns begin. */
    this.turn = turn;
  }
}

/** What texts and thoughts are. */
class Words extends BaseBlock {
  text = "";

  /** @param {number} key @param {OfWords & { turn: number }} told */
  constructor(key, told) {
    super(key, told);
    /** Its number among the blocks of its turn. */
    this.block = told.block;
  }
}

/** What the model says. */
export class Text extends Words {
  type = /** @type {const} */ ("text");
}

/** What it thinks. */
export class Thinking extends Words {
  type = /** @type {const} */ ("thinking");
  isOver = false;
}

/** A value in the arguments of a call, as far as it is written: it grows in place. */
export class Argument {
  /** What it is; null while that is not known. @type {JsonKind | null} */
  kind = null;
  /** A string, so far. */
  text = "";
  /** What it is, once that is settled. @type {JsonValue | undefined} */
  value = undefined;
  /** Whether it is settled, whatever comes after it. */
  isDone = false;
  /** What is in it, in the order in which it was written. @type {Argument[]} */
  children = [];
  /** When it began. @type {Time} */ startedAt = null;
  /** When it was settled. @type {Time} */ doneAt = null;

  /** @param {string | number | null} key @param {JsonPath} path */
  constructor(key, path) {
    /** Its key in the object, or its place in the array, that it is in; null for all of it. */
    this.key = key;
    this.path = path;
  }
}

/** How a call stands: `written` is whole, and nothing was decided or begun yet; `denied` is also
 * what nobody decided on in time, and what there was nothing left to decide about.
 * @typedef {"writing" | "written" | "pending" | "approved" | "running" | "completed" | "failed"
 *   | "denied" | "invalid" | "lost"} CallState */

/** A call of a tool. */
export class Call extends BaseBlock {
  type = /** @type {const} */ ("call");
  /** The text of its arguments, so far. */
  raw = "";
  /** The arguments, as far as they are written. */
  root = new Argument(null, []);
  /** How it was written; null while it is. @type {Verdict | null} */
  verdict = null;
  /** The arguments, once they are whole; once it has run, those that it was run with.
   * @type {JsonObject | string | null} */
  arguments = null;
  /** Why they are not valid. @type {ArgumentsError | null} */
  error = null;
  /** What a person must decide, or had to. @type {ApprovalRequested | null} */
  request = null;
  /** @type {ApprovalDecided | null} */ decision = null;
  /** How often its tool was started. */
  attempts = 0;
  /** What its tool has said while it ran. */
  output = "";
  /** @type {"completed" | "failed" | null} */ outcome = null;
  /** What came of it; why, if it failed. @type {JsonValue} */
  result = null;
  /** @type {Time} */ startedAt = null;
  /** When its arguments were whole, or would never be. @type {Time} */ completedAt = null;
  /** @type {Time} */ requestedAt = null;
  /** @type {Time} */ decidedAt = null;
  /** When its tool was started. @type {Time} */ executedAt = null;
  /** @type {Time} */ endedAt = null;

  /** @param {number} key @param {Extract<Beginning, { type: "call" }>} told */
  constructor(key, told) {
    super(key, told);
    this.id = told.call_id;
    /** How many calls came before it in its turn. */
    this.index = told.index;
    this.name = told.name;
    this.kind = told.kind;
    if (this.isFreeText) this.root.kind = "string";
  }

  /** Whether its arguments are no JSON but text. */
  get isFreeText() {
    return this.kind === "custom" || this.kind === "code";
  }

  /** @returns {CallState} */
  get state() {
    if (this.isLost) return "lost";
    if (this.outcome === "completed") return "completed";
    if (this.verdict !== null && this.verdict !== "complete") return "invalid";
    const { decision } = this;
    const isApproved = decision?.decision === "approved" || decision?.decision === "edited";
    if (decision && !isApproved) return "denied";
    if (this.outcome === "failed") return "failed";
    if (this.attempts > 0) return "running";
    if (isApproved) return "approved";
    if (this.request) return "pending";
    return this.verdict === null ? "writing" : "written";
  }
}

/** Says whether what a snapshot tells is about a block.
 * @param {TextSnapshot | ThinkingSnapshot | CallSnapshot} seen @param {Block | undefined} block */
function isAbout(seen, block) {
  if (seen.turn !== block?.turn || seen.parent_id !== block.parent) return false;
  if (seen.type === "call") return block.type === "call" && block.id === seen.call_id;
  return block.type === seen.type && block.block === seen.block;
}

/** Gives what an event tells of its call, in the words of a snapshot.
 * @param {CallEvent} event @returns {Told} */
function toldBy(event) {
  const { name } = event;
  switch (event.type) {
    case "tool_args_completed":
      return { name, verdict: "complete", arguments: event.arguments };
    case "tool_args_invalid":
      return { name, verdict: event.verdict, error: event.error };
    case "approval_requested":
      return { name, request: event };
    case "approval_decided":
      return { name, decision: event };
    case "tool_execution_started":
      return { name, attempts: event.attempt };
    case "tool_call_completed":
      return { name, outcome: "completed", arguments: event.arguments, result: event.result };
    case "tool_call_failed":
      return { name, outcome: "failed", result: event.error };
    default:
      return { name };
  }
}

/** @param {Usage} one @param {Usage} other */
function sum(one, other) {
  const kinds = /** @type {(keyof Usage)[]} */ (Object.keys(one));
  const sums = kinds.map((kind) => {
    const [first, second] = [one[kind], other[kind]];
    return [kind, first === null || second === null ? (first ?? second) : first + second];
  });
  return /** @type {Usage} */ (Object.fromEntries(sums));
}

/** Returns whether any count is known. @param {Usage} usage */
function isKnown(usage) {
  return Object.values(usage).some((count) => count !== null);
}

/**
 * Has arguments grow by what is told of them.
 * @param {Argument} root
 * @param {ArgumentEvent} view
 * @param {Time} time
 * @returns {Argument} What it is about.
 */
function write(root, view, time) {
  const { path } = view;
  const isNew = view.type === "argument_started";
  let argument = root;
  for (const step of isNew ? path.slice(0, -1) : path) {
    // What is written is always the last that has begun.
    const child = argument.children.findLast((one) => one.key === step);
    argument = /** @type {Argument} */ (child);
  }
  if (isNew) {
    const begun = new Argument(path.at(-1) ?? null, path);
    begun.kind = view.kind;
    begun.startedAt = time;
    root.kind ??= "object";
    argument.children.push(begun);
    return begun;
  }
  if (view.type === "argument_delta") argument.text += view.text;
  else {
    argument.value = view.value;
    argument.isDone = true;
    argument.doneAt = time;
  }
  return argument;
}

/** Gives the arguments of a call that are not whole, as far as a snapshot tells them.
 * @param {CallSnapshot} seen @param {ArgumentEvent[]} views */
function treeIn(seen, views) {
  if (seen.arguments !== null) return null;
  const { root, isFreeText } = new Call(0, seen);
  if (isFreeText) root.text = seen.raw;
  else if (seen.is_lost) return null; // there may be another with its id, that the views are about
  for (const view of views) if (view.call_id === seen.call_id) write(root, view, null);
  return root;
}

/**
 * Gives a value as an argument that is settled.
 * @param {string | number | null} key
 * @param {JsonPath} path
 * @param {JsonValue} value
 * @returns {Argument}
 */
function treeOf(key, path, value) {
  const argument = new Argument(key, path);
  argument.value = value;
  argument.isDone = true;
  if (typeof value === "object" && value !== null) {
    const items = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
    argument.kind = Array.isArray(value) ? "array" : "object";
    argument.children = items.map(([name, item]) => treeOf(name, [...path, name], item));
  } else if (typeof value === "string") {
    argument.kind = "string";
    argument.text = value;
  } else {
    argument.kind = value === null ? "null" : typeof value === "boolean" ? "boolean" : "number";
  }
  return argument;
}

// Streams

/** Server-sent events in text that comes in pieces of any size: it looks at each character once. */
export class EventStreamReader {
  /** How long to wait before coming again, in seconds, as the server has said; null if it has not.
   * @type {number | null} */
  retry = null;
  #rest = "";
  #endedWithReturn = false;
  /** @type {string[]} */ #data = [];

  /**
   * Takes the next piece.
   * @param {string} text
   * @returns {string[]} The data of the events that are whole by it.
   */
  feed(text) {
    if (text === "") return [];
    /** @type {string[]} */
    const events = [];
    const lineEnds = /\r\n?|\n/g;
    let from = this.#endedWithReturn && text.startsWith("\n") ? 1 : 0;
    lineEnds.lastIndex = from;
    for (let end = lineEnds.exec(text); end; end = lineEnds.exec(text)) {
      this.#line(this.#rest + text.slice(from, end.index), events);
      this.#rest = "";
      from = lineEnds.lastIndex;
    }
    this.#rest += text.slice(from);
    this.#endedWithReturn = text.endsWith("\r");
    return events;
  }

  /** @param {string} line @param {string[]} events */
  #line(line, events) {
    if (line === "") {
      if (this.#data.length) events.push(this.#data.join("\n"));
      this.#data = [];
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") this.#data.push(value);
    else if (field === "retry" && /^\d+$/.test(value)) this.retry = Number(value) / 1000;
  }
}

/** Gives the text of an answer as it comes. @param {Response} response */
async function* piecesOf(response) {
  const reader = response.body?.getReader();
  if (!reader) return;
  const decoder = new TextDecoder();
  for (;;) {
    const { done, value } = await reader.read().catch(lost);
    if (done) return;
    yield decoder.decode(value, { stream: true });
  }
}

// JSON with integers of any size. What JavaScript would round goes through its parser and its
// writer as a string with a mark, unless the parser tells what was written.

const LONG_NUMBER = /\d{16}/;
const INTEGER = /^-?\d+$/;
const MARK = `${Math.random()} ${Math.random()} `; // nobody can know it and write it

/** Takes a key, a value and, from newer engines, what was written: Node 20 does not tell that.
 * @typedef {(key: string, value: any, ...context: { source: string }[]) => any} Reviver */

/** @type {Reviver} */
const isSource = (_key, _value, context) => context?.source === "1";
const TELLS_SOURCE = JSON.parse("1", isSource);

/** @type {Reviver} */
const exact = (_key, value, context) =>
  context && isRounded(value) && INTEGER.test(context.source) ? BigInt(context.source) : value;

/** @type {Reviver} */
const withoutMark = (_key, value) =>
  typeof value === "string" && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value;

/**
 * Reads JSON. Integers that a double cannot hold become BigInt.
 * @param {string} text
 * @returns {any}
 */
export function parseJson(text) {
  if (!LONG_NUMBER.test(text)) return JSON.parse(text);
  if (TELLS_SOURCE) return JSON.parse(text, exact);
  JSON.parse(text); // which says best what is wrong with it
  let isString = false;
  const marked = text.replace(/\\.|"|-?\d[-+.\dEe]*/g, (token) => {
    if (token === '"') isString = !isString;
    const isLarge = !isString && INTEGER.test(token) && isRounded(Number(token));
    return isLarge ? `"${MARK}${token}"` : token;
  });
  return JSON.parse(marked, withoutMark);
}

/**
 * Writes JSON, like `JSON.stringify`, and integers of any size as they are.
 * @param {unknown} value
 * @param {number} [indent] By how many spaces what is inside is moved to the right; 0: one line.
 * @returns {string}
 */
export function toJson(value, indent = 0) {
  const text = JSON.stringify(value, withMark, indent) ?? "null";
  const [first, ...rest] = text.split(`"${MARK}`);
  return first + rest.map((piece) => piece.replace('"', "")).join("");
}

/** @this {any} @param {string} key @param {unknown} value */
function withMark(key, value) {
  const number = this[key]; // some pages give BigInt a `toJSON`, which has made a string of it
  if (typeof number === "bigint") return `${MARK}${number}`;
  if (Object.is(number, -0)) return `${MARK}-0.0`;
  // Its digits would say more than it holds, and it would be read as an integer.
  if (isRounded(number) && Number.isFinite(number)) return MARK + number.toExponential();
  return value;
}

/** @param {unknown} value @returns {value is number} */
function isRounded(value) {
  return typeof value === "number" && Math.abs(value) > Number.MAX_SAFE_INTEGER;
}

/** @param {unknown} one @param {unknown} other */
function isSame(one, other) {
  if (one === other || !one || !other) return one === other;
  return typeof one === "object" && toJson(one) === toJson(other);
}
