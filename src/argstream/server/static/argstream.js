/**
 * A client of argstream's server in one file, without dependencies: for browsers, and Node ≥ 20.3.
 *
 * `Run` is the state of a run. It applies the frames that the server sends: its blocks (texts,
 * thinking and calls) grow in place and stay the same objects, over any number of connections.
 * `Following` keeps a run up to date. It reconnects by itself, and its handlers are called once for
 * each change.
 *
 *     import { Client } from "./argstream.js";
 *     const { done } = new Client().converse("Write a poem to poem.txt", {
 *       onText: (block, text) => show(text),
 *       onArgumentText: (call, path, text) => show(call.name, path, text),
 *     });
 *     console.log((await done).status);
 *
 * In this order: Client and Following, Run and its blocks, streams, JSON.
 */

/** @import {
 *   JsonValue, JsonObject, JsonPath, JsonKind, RunStatus, RunMode, Verdict, Usage, ArgumentsError,
 *   OfWords, TextDelta, ThinkingDelta, ThinkingCompleted, OfCall, ApprovalRequested,
 *   ApprovalDecided, CallEvent, ArgumentEvent, TurnStarted, TurnCompleted, RunStarted, RunPaused,
 *   RunResumed, RunFailed, RunEnd, StreamFailed, TextSnapshot, ThinkingSnapshot, CallSnapshot,
 *   RunSnapshot, RunEvent, EventFrame, Frame, RunInfo, ConversationList, RunDetails, Decision,
 *   Connection, Handlers, Retrying, Starting, ClientOptions, RequestOptions, Opening
 * } from "./types.js" */

const EVENTS = { accept: "text/event-stream" };
/** What was said before a run is in the runs before it. */
const WITHOUT_HISTORY = { history: "false" };
const NOT_MODIFIED = 304;

/** Return the server that has served this file: its address up to the last `/static/`.
 * @param {string} url */
function serverOf(url) {
  const at = url.lastIndexOf("/static/");
  return at === -1 ? new URL("..", url) : new URL(url.slice(0, at + 1));
}

/** Talks to a server. What the server refuses is thrown as a `ServerProblem`. */
export class Client {
  #base;
  #token;
  #fetch;
  #retry;
  /** The last answer to `conversations`. */
  /** @type {{ limit: number | undefined, etag: string, list: ConversationList } | null} */
  #listed = null;

  /** @param {ClientOptions} [options] */
  constructor({ base = serverOf(import.meta.url), token, fetch, retry = {} } = {}) {
    this.#base = new URL(base, globalThis.location?.href);
    if (!this.#base.pathname.endsWith("/")) this.#base.pathname += "/";
    this.#token = token;
    this.#fetch = fetch;
    this.#retry = retry;
  }

  /** Starts a run. @param {string} message @param {Starting} [options]
   * @returns {Promise<{ run: string, conversation: string }>} */
  async start(message, { conversation = "", replaces = "" } = {}) {
    return await this.#json(["runs"], { body: { message, conversation, replaces } });
  }

  /** Starts a run, and follows it. The request is sent only once: if it fails, that is final.
   * @param {string} message @param {Starting & Handlers} [options] @returns {Following} */
  converse(message, { conversation = "", replaces = "", ...handlers } = {}) {
    const body = { message, conversation, replaces };
    let isSent = false;
    /** @type {Opening} */
    const opening = (following, signal) => {
      if (isSent) return this.#events(following, signal);
      isSent = true;
      return this.#ask(["runs"], { query: WITHOUT_HISTORY, body, headers: EVENTS, signal });
    };
    return new Following("", opening, handlers, this.#retry);
  }

  /** Follows a run: all that happened so far, and then what happens. @param {string} runId
   * @param {Handlers} [handlers] @param {Run} [run] the run, if it was followed before
   * @returns {Following} */
  follow(runId, handlers = {}, run) {
    return new Following(runId, this.#events, handlers, this.#retry, run);
  }

  /** Decides on calls that a run waits for: on all of these, or none. @param {string} runId
   * @param {{ [callId: string]: Decision }} decisions */
  async decide(runId, decisions) {
    await this.#json(["runs", runId, "decisions"], { body: { decisions } });
  }

  /** Ends a run. @param {string} runId @param {string} [reason] */
  async stop(runId, reason = "") {
    await this.#json(["runs", runId, "stop"], { body: { reason } });
  }

  /** Deletes a run. @param {string} runId */
  async forget(runId) {
    await this.#json(["runs", runId], { method: "DELETE" });
  }

  /** Lists runs: those first in which something happened last.
   * @param {{ status?: RunStatus, conversation?: string, limit?: number }} [query]
   * @returns {Promise<RunInfo[]>} */
  async runs({ status, conversation, limit } = {}) {
    return (await this.#json(["runs"], { query: { status, conversation, limit } })).runs;
  }

  /** Lists conversations, those with the newest run first. Returns the same object as before if
   * nothing has changed: so it can be asked often. @param {{ limit?: number }} [query]
   * @returns {Promise<ConversationList>} */
  async conversations({ limit } = {}) {
    const last = this.#listed?.limit === limit ? this.#listed : null;
    const headers = last === null ? {} : { "if-none-match": last.etag };
    const response = await this.#ask(["conversations"], { query: { limit }, headers });
    if (last !== null && response.status === NOT_MODIFIED) return last.list;
    const list = parseJson(await response.text().catch(lost));
    this.#listed = { limit, etag: response.headers.get("etag") ?? "", list };
    return list;
  }

  /** Changes the title of a conversation. @param {string} conversation @param {string} title */
  async renameConversation(conversation, title) {
    await this.#json(["conversations", conversation], { method: "PATCH", body: { title } });
  }

  /** Deletes a conversation with its runs. For ten minutes, `restoreConversation` brings it back.
   * @param {string} conversation */
  async deleteConversation(conversation) {
    await this.#json(["conversations", conversation], { method: "DELETE" });
  }

  /** Brings back a conversation that was deleted. @param {string} conversation */
  async restoreConversation(conversation) {
    await this.#json(["conversations", conversation, "restore"], { body: {} });
  }

  /** Returns the details of a run. @param {string} runId @returns {Promise<RunDetails>} */
  async run(runId) {
    return await this.#json(["runs", runId]);
  }

  /** Reads the log of a run as far as it goes: each thing that happened, with its time.
   * @param {string} runId @param {{ after?: number }} [options] The seq to begin after.
   * @returns {AsyncGenerator<EventFrame, void, void>} */
  async *log(runId, { after } = {}) {
    const reading = new AbortController();
    const headers = { accept: "application/x-ndjson" };
    const options = { query: { ...WITHOUT_HISTORY, after }, headers, signal: reading.signal };
    try {
      const response = await this.#ask(["runs", runId, "log"], options);
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

  /** Returns whether a token is needed that this client did not send, whether it is signed in, and
   * the agent's name.
   * @returns {Promise<{ needs_token: boolean, signed_in: boolean, agent: string }>} */
  async session() {
    return await this.#json(["session"]);
  }

  /** Has a browser keep the token as a cookie that no script can read. @param {string} token */
  async signIn(token) {
    await this.#json(["session"], { body: { token } });
  }

  /** Has the browser delete that cookie. */
  async signOut() {
    await this.#json(["session"], { method: "DELETE" });
  }

  /** @type {Opening} */
  #events = ({ runId, run }, signal) => {
    const query = { ...WITHOUT_HISTORY, after: run.seq || undefined };
    const headers = run.seq ? { ...EVENTS, "last-event-id": String(run.seq) } : EVENTS;
    return this.#ask(["runs", runId, "events"], { query, headers, signal });
  };

  /** @param {string[]} path @param {RequestOptions} [options] */
  async #json(path, options) {
    const response = await this.#ask(path, options);
    const text = await response.text().catch(lost);
    return text === "" ? undefined : parseJson(text);
  }

  /** @param {string[]} path @param {RequestOptions} [options] */
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
    if (!response.ok && response.status !== NOT_MODIFIED) throw await problemOf(response);
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
  /** How long to wait at first, as the server has said in the last stream. @type {number | null} */
  #told = null;
  #closing = new AbortController();
  #resting = new AbortController();

  /** Made by a `Client`. @param {string} runId @param {Opening} opening @param {Handlers} handlers
   * @param {Retrying} retry @param {Run} [run] */
  constructor(runId, opening, handlers, retry, run = new Run(runId)) {
    this.run = run;
    run.listen(handlers);
    this.#runId = runId;
    this.#opening = opening;
    this.#handlers = handlers;
    const usual = { first: 0.25, most: 10, silence: 60, random: Math.random, wait };
    this.#retry = { ...usual, ...retry };
    this.done = this.#follow();
  }

  /** The run's id; empty while it is not known. */
  get runId() {
    return this.#runId || this.run.runId;
  }

  /** Follows it no more, and tells nothing more of it. The run itself goes on. */
  close() {
    this.#closing.abort();
    this.run.listen({});
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

  /** Reads one stream to its end. @returns {Promise<boolean>} Whether there is no more to come. */
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

  /** Reads the IDs of the run and the conversation from the headers. @param {Response} response */
  #meet({ status, headers }) {
    if (!headers.get("content-type")?.startsWith("text/event-stream")) {
      const detail = "what has answered is no server of argstream: it sent no stream of events";
      throw new ServerProblem(status, { detail });
    }
    this.run.runId ||= headers.get("x-argstream-run") ?? "";
    this.run.conversationId ||= decodeURIComponent(headers.get("x-argstream-conversation") ?? "");
  }

  /** Waits until it is to be tried again.
   * @param {number} waits How often it was waited since anything was heard.
   * @param {Error | null} problem */
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

/** Calls a handler. An error that it throws is reported as uncaught, and does not reach the caller.
 * @template {keyof Handlers} Name @param {Handlers} handlers @param {Name} name
 * @param {Parameters<Required<Handlers>[Name]>} words */
function tell(handlers, name, words) {
  const handler = /** @type {((...words: unknown[]) => void) | undefined} */ (handlers[name]);
  try {
    handler?.(...words);
  } catch (error) {
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
    super(`can't reach the server: ${why}`, { cause });
    this.name = "ConnectionLost";
  }
}

/** @param {unknown} cause @returns {never} */
function lost(cause) {
  throw new ConnectionLost(cause);
}

/** A request that the server refused: its message is why, in words. */
export class ServerProblem extends Error {
  /** @param {number} status @param {{ type?: string, title?: string, detail?: string }} told
   * @param {number | null} [retryAfter] */
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

// A run and its blocks. Names and states are those of `argstream.runs.RunState` in Python, and one
// file of examples tests both.

/** A Unix time in seconds. It is null if the thing has not happened. Snapshots do not have those of
 * arguments. @typedef {number | null} Time */
/** @typedef {Text | Thinking | Call} Block */
/** What is known of a block when it starts.
 * @typedef {Pick<TextSnapshot | ThinkingSnapshot, "type" | "turn" | keyof OfWords>
 *   | Pick<CallSnapshot, "type" | "turn" | "parent_id" | "index" | "kind" | keyof OfCall>
 * } Beginning */
/** Fields of a block, as in a snapshot. An event has some of them.
 * @typedef {Partial<Omit<ThinkingSnapshot, "type"> & Omit<CallSnapshot, "type">>} Told */
/** When a turn started and ended, and how. `endedAt` is null if it was cut off or is in progress.
 * @typedef {{ turn: number, attempt: number, parentId: string | null, startedAt: number,
 *   endedAt: Time, end: TurnCompleted | null }} TurnTimes */
/** A time in which a run was paused, or no process drove it. `callIds` are the calls that waited
 * for a decision, or were cut off.
 * @typedef {{ cause: "pause" | "crash", startedAt: number, endedAt: Time,
 *   callIds: string[] }} Break */

const STATUSES = /** @type {const} */ ({
  run_completed: "completed", run_failed: "failed", run_stopped: "stopped",
});

/**
 * The state of a run, and the reducer of its frames. Blocks and arguments grow in place.
 *
 * A snapshot and the frames after it lead to the same state as all frames. An event is applied as a
 * part of a snapshot, and handlers are called only for what was not known before.
 */
export class Run {
  conversationId = "";
  agent = "";
  user = "";
  /** @type {RunMode} */ mode = "agent";
  /** @type {RunStatus} */ status = "running";
  prompt = "";
  /** The messages before the run, if the server was asked for them. @type {JsonObject[]} */
  history = [];
  /** Texts, thinking and calls, in the order in which they started. @type {Block[]} */
  blocks = [];
  /** The newest call with each ID. @type {Map<string, Call>} */
  calls = new Map();
  /** How many turns started. */
  turns = 0;
  /** Of complete turns; of all turns if the run failed or was stopped. @type {Usage} */
  usage = {
    input_tokens: null, output_tokens: null, cache_read_tokens: null, cache_write_tokens: null,
    reasoning_tokens: null,
  };
  /** Why the last turn ended. @type {string | null} */
  stopReason = null;
  /** The event that ended the run. @type {RunEnd | null} */
  end = null;
  /** @type {(StreamFailed | RunFailed)[]} */ failures = [];
  /** Turns since the last snapshot. @type {TurnTimes[]} */ turnTimes = [];
  /** @type {Break[]} */ breaks = [];
  /** @type {Time} */ startedAt = null;
  /** @type {Time} */ endedAt = null;
  /** Of the last record; 0 if there is none. */
  seq = 0;
  /** Of the last record. It never decreases. */
  time = 0;

  #nextKey = 0;
  /** @type {Set<Block>} */ #changed = new Set();
  #handlers;
  /** Handlers to call after the frame is applied. @type {{ name: keyof Handlers, words: any }[]} */
  #news = [];
  /** The time of the event that is applied; null for a snapshot. @type {Time} */
  #now = null;
  /** The time of the record before. */
  #before = 0;

  /** @param {string} [runId] @param {Handlers} [handlers] */
  constructor(runId = "", handlers = {}) {
    this.runId = runId;
    this.#handlers = handlers;
  }

  /** The requests that wait for a decision. @returns {ApprovalRequested[]} */
  get pending() {
    return this.blocks.flatMap((block) =>
      block.type === "call" && block.isPending && block.request ? [block.request] : [],
    );
  }

  /** Applies the next frame. An event that was already applied changes nothing.
   * @param {Frame} frame @returns {Block[]} The blocks that have changed. */
  take(frame) {
    const { seq, time, event, snapshot, arguments: views = [] } = frame;
    if (seq <= this.seq && !snapshot) return [];
    this.seq = seq;
    this.#before = this.time;
    this.time = snapshot ? time : Math.max(this.time, time);
    this.#now = snapshot ? null : this.time;
    this.#changed.clear();
    this.#tell("onFrame", frame);
    if (snapshot) this.#restore(snapshot, views);
    else this.#apply(event, views);
    const blocks = [...this.#changed];
    this.#tell("onChange", this, blocks);
    for (const { name, words } of this.#news.splice(0)) tell(this.#handlers, name, words);
    return blocks;
  }

  /** Calls these handlers from now on, and no others. @param {Handlers} handlers */
  listen(handlers) {
    this.#handlers = handlers;
  }

  /** @template {keyof Handlers} Name @param {Name} name
   * @param {Parameters<Required<Handlers>[Name]>} words */
  #tell(name, ...words) {
    if (this.#handlers[name]) this.#news.push({ name, words });
  }

  /** @param {RunEvent} event @param {ArgumentEvent[]} views */
  #apply(event, views) {
    switch (event.type) {
      case "text_delta":
      case "thinking_delta":
        return this.#grow(this.#openText(event), event.text);
      case "thinking_started":
        return this.#start({ ...event, type: "thinking", turn: this.turns });
      case "thinking_completed": {
        const block = this.#openText(event);
        block.lastTextAt = this.#now;
        return this.#update(block, { text: event.text, is_over: true });
      }
      case "tool_call_started":
        return this.#start({ ...event, type: "call", turn: this.turns });
      case "turn_started":
        return this.#startTurn(event);
      case "turn_completed":
        return this.#endTurn(event);
      case "run_started":
        this.#describe(event, this.#now);
        break;
      case "run_paused":
        return this.#pause(event);
      case "run_resumed":
        return this.#resume(event);
      case "run_completed":
      case "run_failed":
      case "run_stopped":
        return this.#end(event);
      case "stream_failed":
        this.failures.push(event);
        break;
      default: {
        const call = this.calls.get(event.call_id);
        if (call) this.#applyTo(call, event, views);
      }
    }
  }

  /** @param {Call} call @param {CallEvent} event @param {ArgumentEvent[]} views */
  #applyTo(call, event, views) {
    this.#changed.add(call);
    call.name = event.name; // some servers send names in pieces
    switch (event.type) {
      case "tool_args_delta":
        return this.#grow(call, event.delta, views);
      case "tool_args_completed":
        call.completedAt = call.lastTextAt = this.#now;
        return this.#update(call, { verdict: "complete", arguments: event.arguments });
      case "tool_args_invalid":
        call.completedAt = call.lastTextAt = this.#now;
        return this.#update(call, { verdict: event.verdict, error: event.error });
      case "approval_requested":
        call.requestedAt = this.#now;
        return this.#update(call, { request: event });
      case "approval_decided":
        call.decidedAt = this.#now;
        return this.#update(call, { decision: event });
      case "tool_execution_started":
        call.executedAt.push(this.time);
        return this.#update(call, { attempts: event.attempt });
      case "tool_output_delta":
        return this.#addOutput(call, event.text);
      case "tool_call_completed": {
        const { arguments: args, result } = event;
        call.endedAt = this.#now;
        // The arguments of an invalid call are its text, wrapped for models.
        const isValid = call.verdict === null || call.verdict === "complete";
        if (isValid && call.arguments === null) call.root = new Argument(null, []);
        const seen = isValid ? { arguments: args } : {};
        return this.#update(call, { outcome: "completed", result, ...seen });
      }
      case "tool_call_failed":
        call.endedAt = this.#now;
        return this.#update(call, { outcome: "failed", result: event.error });
    }
  }

  /** @param {RunSnapshot} snapshot @param {ArgumentEvent[]} views */
  #restore(snapshot, views) {
    this.#describe(snapshot, snapshot.started_at);
    this.endedAt = snapshot.ended_at;
    this.conversationId = snapshot.conversation_id || this.conversationId;
    this.agent = snapshot.agent || this.agent;
    this.turns = snapshot.turns;
    this.usage = snapshot.usage;
    this.stopReason = snapshot.stop_reason;
    this.turnTimes = [];
    this.breaks = snapshot.breaks.map(({ cause, started_at, ended_at, call_ids }) => (
      { cause, startedAt: started_at, endedAt: ended_at, callIds: call_ids }));
    this.calls.clear();
    for (const [place, seen] of snapshot.blocks.entries()) {
      if (!isAbout(seen, this.blocks[place])) this.#dropFrom(place);
      const known = this.blocks[place];
      const block = known ?? this.#start(seen);
      if (!known) block.snapshotAt = this.time;
      if (block.type === "call") this.calls.set(block.callId, block);
      this.#update(block, seen, seen.type === "call" ? treeIn(seen, views) : null);
      this.#restoreTimes(block, seen);
    }
    this.#dropFrom(snapshot.blocks.length);
    this.#setStatus(snapshot.status, snapshot.end);
  }

  /** @param {Block} block @param {TextSnapshot | ThinkingSnapshot | CallSnapshot} seen */
  #restoreTimes(block, seen) {
    block.startedAt = seen.started_at;
    block.lastTextAt = seen.last_text_at;
    if (block.type !== "call" || seen.type !== "call") return;
    block.completedAt = seen.completed_at;
    block.requestedAt = seen.requested_at;
    block.decidedAt = seen.decided_at;
    block.executedAt = seen.executed_at;
    block.endedAt = seen.ended_at;
    this.#set(block, "interruptions", seen.interruptions);
  }

  // Turns and the run

  /** @param {RunStarted | RunSnapshot} about @param {Time} startedAt */
  #describe({ run_id: runId, prompt, history, user, mode }, startedAt) {
    Object.assign(this, { runId, prompt, history, user, mode, startedAt });
  }

  /** @param {TurnStarted} event */
  #startTurn({ turn, attempt }) {
    const times = { turn, attempt, parentId: null, startedAt: this.time, endedAt: null, end: null };
    this.turns = turn;
    this.turnTimes.push(times);
    if (attempt === 1) return;
    // The attempt before was cut off. This one may use the same numbers and IDs.
    for (const block of this.blocks.toReversed()) {
      if (block.turn !== turn) break;
      this.#update(block, { is_lost: true });
    }
  }

  /** @param {TurnCompleted} event */
  #endTurn(event) {
    const { parent_id: parentId } = event;
    this.usage = sum(this.usage, event.usage);
    if (parentId === null) this.stopReason = event.stop_reason;
    const turns = this.turnTimes.filter((one) => one.parentId === parentId);
    let turn = turns.at(-1);
    if (!turn || turn.endedAt !== null) {
      // Not every agent reports the start of a turn. It starts when the one before it ends.
      const parent = this.calls.get(parentId ?? "");
      const before = turn ? turn.endedAt : parent ? parent.completedAt : this.startedAt;
      const startedAt = before ?? 0;
      const number = turns.length + 1;
      turn = { turn: number, attempt: 1, parentId, startedAt, endedAt: null, end: null };
      this.turnTimes.push(turn);
    }
    turn.endedAt = this.time;
    turn.end = event;
  }

  /** @param {RunPaused} event */
  #pause({ pending }) {
    const callIds = pending.map(({ call_id }) => call_id);
    this.#endBreak();
    this.breaks.push({ cause: "pause", startedAt: this.time, endedAt: null, callIds });
    this.#setStatus("paused");
  }

  /** @param {RunResumed} event */
  #resume({ cause, interrupted }) {
    this.#endBreak();
    if (cause === "crash") {
      const [startedAt, endedAt] = [this.#before, this.time];
      this.breaks.push({ cause, startedAt, endedAt, callIds: interrupted });
      for (const call of this.calls.values()) {
        if (!interrupted.includes(call.callId)) continue;
        call.interruptions += 1;
        this.#changed.add(call);
      }
    }
    this.#setStatus("running");
  }

  /** @param {RunEnd} event */
  #end(event) {
    this.#endBreak();
    this.endedAt = this.#now;
    if (event.type === "run_failed") this.failures.push(event);
    if (event.type !== "run_completed" && event.usage) {
      const isKnown = Object.values(event.usage).some((count) => count !== null);
      if (isKnown) this.usage = event.usage;
    }
    this.#setStatus(STATUSES[event.type], event);
  }

  #endBreak() {
    const last = this.breaks.at(-1);
    if (last) last.endedAt ??= this.time;
  }

  /** @param {RunStatus} status @param {RunEnd | null} [end] */
  #setStatus(status, end = this.end) {
    if (status === "paused" && this.status !== "paused") this.#tell("onPause", this);
    if (end && !this.end) this.#tell("onDone", this);
    this.status = status;
    this.end = end;
  }

  // Blocks

  /** Drops the blocks that a snapshot does not have: a crash of the machine can lose the end of a
   * log. @param {number} place */
  #dropFrom(place) {
    for (const block of this.blocks.splice(place)) this.#update(block, { is_lost: true });
  }

  /** @param {Beginning} told */
  #start(told) {
    const key = this.#nextKey++;
    const block =
      told.type === "call" ? new Call(key, told)
      : told.type === "text" ? new Text(key, told)
      : new Thinking(key, told);
    block.startedAt = block.lastTextAt = this.#now;
    this.blocks.push(block);
    this.#changed.add(block);
    if (block.type !== "call") return block;
    this.calls.set(block.callId, block);
    this.#tell("onToolStart", block);
    return block;
  }

  /** Returns the block that an event continues, or starts it: no event reports the start of a text.
   * @param {TextDelta | ThinkingDelta | ThinkingCompleted} event */
  #openText({ type, block, parent_id }) {
    const known = this.blocks.findLast((one) => {
      return one.type !== "call" && one.block === block && one.parentId === parent_id;
    });
    if (known && known.type !== "call" && !known.isLost) return known;
    const kind = type === "text_delta" ? "text" : "thinking";
    const started = this.#start({ type: kind, block, parent_id, turn: this.turns });
    return /** @type {Text | Thinking} */ (started);
  }

  /** Appends to a text, or to the raw arguments of a call.
   * @param {Block} block @param {string} text @param {ArgumentEvent[]} [views] */
  #grow(block, text, views = []) {
    block.lastTextAt = this.#now ?? block.lastTextAt;
    if (block.type === "call") {
      block.raw += text;
      if (block.isFreeText) this.#growRoot(block, text);
      for (const view of views) this.#write(block, view);
      return;
    }
    if (text === "") return;
    block.text += text;
    this.#changed.add(block);
    if (block.type === "text") this.#tell("onText", block, text);
    else this.#tell("onThinking", block, text);
  }

  /** @param {Call} call @param {string} text */
  #addOutput(call, text) {
    if (text === "") return;
    call.output += text;
    this.#changed.add(call);
    this.#tell("onOutput", call, text);
  }

  // Updating a block. Undefined fields stay as they are, and equal ones are no news.

  /** @param {Block} block @param {Told} told
   * @param {Argument | null} [tree] Incomplete arguments of a snapshot. */
  #update(block, told, tree = null) {
    this.#set(block, "isLost", told.is_lost);
    if (block.type === "call") {
      this.#updateCall(block, told, tree);
      return;
    }
    this.#set(block, "isOver", told.is_over);
    if (told.text?.startsWith(block.text)) this.#grow(block, told.text.slice(block.text.length));
    else this.#set(block, "text", told.text);
  }

  /** @param {Call} call @param {Told} told @param {Argument | null} tree */
  #updateCall(call, told, tree) {
    this.#set(call, "name", told.name);
    this.#set(call, "error", told.error);
    if (call.isFreeText && told.raw) this.#growRoot(call, "");
    this.#set(call, "raw", told.raw);
    const written = this.#updateArguments(call, told, tree);
    if (this.#set(call, "verdict", told.verdict)) {
      const { verdict, error } = call;
      if (verdict === "complete" && written !== null) this.#tell("onBlock", call, written);
      else if (verdict && verdict !== "complete" && error) {
        this.#tell("onInvalid", call, verdict, error);
      }
    }
    if (this.#set(call, "request", told.request) && call.request) {
      this.#tell("onApproval", call, call.request);
    }
    if (this.#set(call, "decision", told.decision) && call.decision) {
      this.#tell("onDecision", call, call.decision);
    }
    this.#set(call, "attempts", told.attempts);
    if (told.output?.startsWith(call.output)) {
      this.#addOutput(call, told.output.slice(call.output.length));
    } else this.#set(call, "output", told.output);
    this.#set(call, "result", told.result);
    if (this.#set(call, "outcome", told.outcome) && call.outcome) {
      this.#tell("onResult", call, call.outcome, call.result);
    }
  }

  /** @template {Block} Kind @template {keyof Kind} Field @param {Kind} block @param {Field} field
   * @param {Kind[Field] | undefined} value @returns {boolean} Whether the field has changed. */
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

  /** The arguments of a free-text call start with its first text.
   * @param {Call} call @param {string} text */
  #growRoot(call, text) {
    const { root } = call;
    if (root.startedAt === null && root.text === "") {
      root.startedAt = this.#now;
      this.#tell("onArgumentStart", call, root);
    }
    root.text += text;
    if (text !== "") this.#tell("onArgumentText", call, root.path, text);
  }

  /** Updates the arguments, and returns those that the model wrote if they are complete. If other
   * arguments run, they have a tree of their own, and no handler is called for its members.
   * @param {Call} call @param {Told} told @param {Argument | null} tree */
  #updateArguments(call, told, tree) {
    const { arguments: args = null, request, decision } = told;
    const written = (decision?.edited_arguments && request?.arguments) ?? args;
    const complete = written === null || call.root.isDone ? tree : treeOf(null, [], written, null);
    if (complete) this.#merge(call, call.root, complete);
    if (args !== null && !isSame(args, call.root.value)) {
      call.root = treeOf(null, [], args, this.#now);
      this.#changed.add(call);
    }
    if (told.arguments !== undefined) call.arguments = args;
    return written;
  }

  /** Makes an argument equal to another, in place. Complete members that are already equal keep
   * their times. @param {Call} call @param {Argument} known @param {Argument} other
   * @param {boolean} [isNews] Whether handlers are called. */
  #merge(call, known, other, isNews = true) {
    if (known.isDone && other.isDone && isSame(known.value, other.value)) return;
    this.#changed.add(call);
    isNews &&= !known.isDone;
    const isMember = known.key !== null;
    const isReported = isNews && (isMember || call.isFreeText);
    if (isMember && other.isDone) known.startedAt = this.#now ?? known.startedAt;
    if (known.kind !== other.kind) {
      if (isReported && known.kind === null) this.#tell("onArgumentStart", call, known);
      known.kind = other.kind;
      known.text = "";
      known.children = [];
    }
    const { path, text } = known;
    known.text = other.text;
    if (isNews && other.text !== text && other.text.startsWith(text)) {
      this.#tell("onArgumentText", call, path, other.text.slice(text.length));
    }
    const before = new Map(known.children.map((child) => [child.key, child]));
    const after = other.children.map((child) => {
      const same = before.get(child.key) ?? new Argument(child.key, child.path);
      this.#merge(call, same, child, isNews);
      return same;
    });
    // The order of the text is kept, unless a member is gone. An object of JavaScript does not have
    // it: its keys that are numbers come first.
    const members = new Set(after);
    const isKept = known.children.every((child) => members.has(child));
    known.children = isKept ? [...new Set([...known.children, ...after])] : after;
    if (other.isDone) {
      known.finish(other.value, this.#now);
      if (isReported) this.#tell("onArgument", call, path, known.value);
    } else {
      known.isDone = false;
      known.doneAt = null;
    }
  }
}

class BaseBlock {
  /** Whether its turn was cut off and started again. The model does not see such a block. */
  isLost = false;
  /** @type {Time} */ startedAt = null;
  /** When its text grew last; for a call, also when it had its verdict. @type {Time} */
  lastTextAt = null;
  /** The time of the snapshot that it was first seen in; null if its start was seen.
   * @type {Time} */
  snapshotAt = null;

  /** @param {number} key @param {{ parent_id: string | null, turn: number }} told */
  constructor(key, { parent_id, turn }) {
    /** Unique in the run. */
    this.key = key;
    /** The call whose sub-agent this is of; null if it is of the agent itself. */
    this.parentId = parent_id;
    /** The number of its turn; 0 if the run does not report when turns start. */
    this.turn = turn;
  }
}

class TextBlock extends BaseBlock {
  text = "";
  /** Whether it is complete. Only thinking reports that. */
  isOver = false;

  /** @param {number} key @param {OfWords & { turn: number }} told */
  constructor(key, told) {
    super(key, told);
    /** Its number among the blocks of its turn. */
    this.block = told.block;
  }
}

/** A text of the model. */
export class Text extends TextBlock {
  type = /** @type {const} */ ("text");
}

/** A block of thinking. */
export class Thinking extends TextBlock {
  type = /** @type {const} */ ("thinking");
}

/** A value inside the arguments of a call. It grows in place. */
export class Argument {
  /** Null while it is not known. @type {JsonKind | null} */
  kind = null;
  /** Of a string, so far. */
  text = "";
  /** Whether later text cannot change it. */
  isDone = false;
  /** In the order of the text. @type {Argument[]} */
  children = [];
  /** @type {Time} */ startedAt = null;
  /** @type {Time} */ doneAt = null;
  /** @type {JsonValue} */ #value = null;

  /** @param {string | number | null} key @param {JsonPath} path */
  constructor(key, path) {
    /** Its key in an object, or its index in an array; null for all of the arguments. */
    this.key = key;
    this.path = path;
  }

  /** The value, so far. @returns {JsonValue} */
  get value() {
    if (this.isDone) return this.#value;
    if (this.kind === "array") return this.children.map(({ value }) => value);
    if (this.kind === "object") {
      return Object.fromEntries(this.children.map(({ key, value }) => [key, value]));
    }
    return this.kind === "string" ? this.text : null;
  }

  /** @param {JsonValue} value @param {Time} time */
  finish(value, time) {
    this.#value = value;
    this.isDone = true;
    this.doneAt = time;
  }
}

/** `written`: complete, but not started. `denied`: also if the request expired or was withdrawn.
 * @typedef {"writing" | "written" | "pending" | "approved" | "running" | "completed" | "failed"
 *   | "denied" | "invalid" | "lost"} CallState */

/** A call of a tool, from its name to its result. */
export class Call extends BaseBlock {
  type = /** @type {const} */ ("call");
  /** The text of the arguments, so far. */
  raw = "";
  /** The arguments, so far; after execution, those that ran. */
  root = new Argument(null, []);
  /** The arguments as the model wrote them, also if other arguments ran. */
  written = this.root;
  /** Null while it is written. @type {Verdict | null} */
  verdict = null;
  /** The model's arguments once they are complete; after execution, those that ran.
   * @type {JsonObject | string | null} */
  arguments = null;
  /** Why the arguments are not valid. @type {ArgumentsError | null} */
  error = null;
  /** @type {ApprovalRequested | null} */ request = null;
  /** @type {ApprovalDecided | null} */ decision = null;
  /** How often the tool was started. */
  attempts = 0;
  /** Attempts that a crash ended. */
  interruptions = 0;
  /** The output of the running tool. */
  output = "";
  /** @type {"completed" | "failed" | null} */ outcome = null;
  /** The result, or the error if the call failed. @type {JsonValue} */
  result = null;
  /** When it had its verdict. @type {Time} */ completedAt = null;
  /** @type {Time} */ requestedAt = null;
  /** @type {Time} */ decidedAt = null;
  /** One time per attempt. @type {number[]} */ executedAt = [];
  /** @type {Time} */ endedAt = null;

  /** @param {number} key @param {Extract<Beginning, { type: "call" }>} told */
  constructor(key, told) {
    super(key, told);
    this.callId = told.call_id;
    /** The number of calls before it in its turn. */
    this.index = told.index;
    this.name = told.name;
    this.kind = told.kind;
    if (this.isFreeText) this.root.kind = "string";
  }

  /** Whether the arguments are a text and not JSON. */
  get isFreeText() {
    return this.kind === "custom" || this.kind === "code";
  }

  /** Whether it waits for a decision. */
  get isPending() {
    const { request, decision, outcome } = this;
    return request !== null && decision === null && outcome === null && !this.isLost;
  }

  /** The arguments that the model wrote, once they are complete. */
  get writtenArguments() {
    return (this.decision?.edited_arguments && this.request?.arguments) ?? this.arguments;
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

/** Returns whether a block of a snapshot is this block.
 * @param {TextSnapshot | ThinkingSnapshot | CallSnapshot} seen @param {Block | undefined} block */
function isAbout(seen, block) {
  if (seen.turn !== block?.turn || seen.parent_id !== block.parentId) return false;
  if (seen.type === "call") return block.type === "call" && block.callId === seen.call_id;
  return block.type === seen.type && block.block === seen.block;
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

/** Applies an argument event. @param {Argument} root @param {ArgumentEvent} view @param {Time} time
 * @returns {Argument} The argument that has changed. */
function write(root, view, time) {
  const { path } = view;
  const isNew = view.type === "argument_started";
  let argument = root;
  for (const step of isNew ? path.slice(0, -1) : path) {
    // From the end: a value that grows is the last one.
    const child = argument.children.findLast((one) => one.key === step);
    argument = /** @type {Argument} */ (child);
  }
  if (isNew) {
    const started = new Argument(path.at(-1) ?? null, path);
    started.kind = view.kind;
    started.startedAt = time;
    root.kind ??= "object";
    argument.children.push(started);
    return started;
  }
  if (view.type === "argument_delta") argument.text += view.text;
  else argument.finish(view.value, time);
  return argument;
}

/** Returns the incomplete arguments of a call in a snapshot.
 * @param {CallSnapshot} seen @param {ArgumentEvent[]} views */
function treeIn(seen, views) {
  if (seen.arguments !== null) return null;
  const { root, isFreeText } = new Call(0, seen);
  if (isFreeText) root.text = seen.raw;
  else if (seen.is_lost) return null; // its ID may be used again: the events are about that call
  for (const view of views) if (view.call_id === seen.call_id) write(root, view, null);
  return root;
}

/** Returns a complete value as an argument. The time is that of its members.
 * @param {string | number | null} key @param {JsonPath} path @param {JsonValue} value
 * @param {Time} time @returns {Argument} */
function treeOf(key, path, value, time) {
  const argument = new Argument(key, path);
  argument.startedAt = key === null ? null : time;
  argument.finish(value, time);
  if (typeof value === "object" && value !== null) {
    const items = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
    argument.kind = Array.isArray(value) ? "array" : "object";
    argument.children = items.map(([name, item]) => treeOf(name, [...path, name], item, time));
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

  /** Parses the next piece. @param {string} text
   * @returns {string[]} The data of the events that it completes. */
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

/** Yields the text of a response as it arrives. @param {Response} response */
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
// writer as a string with a mark, unless the parser passes the source text to the reviver.

const LONG_NUMBER = /\d{16}/;
const INTEGER = /^-?\d+$/;
const MARK = `${Math.random()} ${Math.random()} `; // nobody can know it and write it

/** Called with a key, a value and the source text, which Node 20 does not pass.
 * @typedef {(key: string, value: any, ...context: { source: string }[]) => any} Reviver */

/** @type {Reviver} */
const isSource = (_key, _value, context) => context?.source === "1";
const PASSES_SOURCE = JSON.parse("1", isSource);

/** @type {Reviver} */
const exact = (_key, value, context) =>
  context && isRounded(value) && INTEGER.test(context.source) ? BigInt(context.source) : value;

/** @type {Reviver} */
const withoutMark = (_key, value) =>
  typeof value === "string" && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value;

/** Reads JSON. Integers that a double cannot hold become BigInt. @param {string} text
 * @returns {any} */
export function parseJson(text) {
  if (!LONG_NUMBER.test(text)) return JSON.parse(text);
  if (PASSES_SOURCE) return JSON.parse(text, exact);
  JSON.parse(text); // which says best what is wrong with it
  let isString = false;
  const marked = text.replace(/\\.|"|-?\d[-+.\dEe]*/g, (token) => {
    if (token === '"') isString = !isString;
    const isLarge = !isString && INTEGER.test(token) && isRounded(Number(token));
    return isLarge ? `"${MARK}${token}"` : token;
  });
  return JSON.parse(marked, withoutMark);
}

/** Writes JSON, like `JSON.stringify`, and integers of any size as they are. @param {unknown} value
 * @param {number} [indent] By how many spaces what is inside is moved to the right; 0: one line.
 * @returns {string} */
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
