// Types of the modules. Names of fields in what the server sends are the server's own.

import type { Argument, Block, Call, Following, Run, Text, Thinking, Time } from "./argstream.js";
import type { codeTexts } from "./code.js";
import type { Item } from "./tool-call.js";

/** What JSON can say. Integers that a double cannot hold are BigInt. */
export type JsonValue = string | number | bigint | boolean | null | JsonValue[] | JsonObject;
export type JsonObject = { [key: string]: JsonValue };
/** The path of a value in the arguments: keys, and indexes in arrays. */
export type JsonPath = (string | number)[];
export type JsonKind = "object" | "array" | "string" | "number" | "boolean" | "null";
export type RunStatus = "running" | "paused" | "completed" | "failed" | "stopped";
/** An agent runs the tools, or another program whose events are observed. */
export type RunMode = "agent" | "observed";
/** Where a call runs, and the form of its input: `custom` and `code` are free text, the others
 * JSON. */
export type CallKind = "function" | "server" | "mcp" | "custom" | "code" | "patch" | "client";
/** Why a call is not run: what was written is not whole, or not valid. */
export type InvalidVerdict = "truncated" | "malformed" | "rejected" | "aborted";
/** How a call ended to be written. */
export type Verdict = "complete" | InvalidVerdict;
export type ApprovalOutcome = "approved" | "edited" | "denied" | "expired" | "withdrawn";
/** What an approval covers. */
export type ApprovalScope = "call" | "rule" | "conversation";
/** The tokens that turns used. A count is null if the provider did not report it. */
export type Usage = { input_tokens: number | null, output_tokens: number | null,
  cache_read_tokens: number | null, cache_write_tokens: number | null, reasoning_tokens: number
  | null };
/** Why arguments are not valid: which character of their text it is about, and which rule of a
 * schema was broken, where it was one. */
export type ArgumentsError = { reason: string, message: string, offset: number | null,
  path: JsonPath, keyword: string | null };
/** Of a text or a thought: its number among the blocks, and the call whose sub-agent it is of. */
export type OfWords = { block: number, parent_id: string | null };
export type TextDelta = OfWords & { type: "text_delta", text: string };
export type ThinkingStarted = OfWords & { type: "thinking_started" };
export type ThinkingDelta = OfWords & { type: "thinking_delta", text: string };
export type ThinkingCompleted = OfWords & { type: "thinking_completed", text: string };
/** Of a call. */
export type OfCall = { call_id: string, name: string };
export type ToolCallStarted = OfCall & { type: "tool_call_started", index: number, kind: CallKind,
  parent_id: string | null };
export type ToolArgsDelta = OfCall & { type: "tool_args_delta", delta: string };
/** `text` is the exact text of the arguments, if it is not that of the deltas joined. */
export type ToolArgsCompleted = OfCall & { type: "tool_args_completed", arguments: JsonObject
  | string, text?: string };
export type ToolArgsInvalid = OfCall & { type: "tool_args_invalid", verdict: InvalidVerdict,
  raw: string, error: ArgumentsError };
/** A person must decide whether this call may run, until `expires_at` (seconds since 1970). The
 * digest stands for what is decided on: a decision must name it. The reason is why somebody is
 * asked, the rule that of the policy that asks, if it was one. */
export type ApprovalRequested = OfCall & { type: "approval_requested", arguments: JsonObject,
  digest: string, reason: string, rule: string | null, expires_at: number | null,
  rule_digest: string };
/** It was decided whether the call may run, and with what in place of the model's arguments. */
export type ApprovalDecided = OfCall & { type: "approval_decided", decision: ApprovalOutcome,
  reason: string, edited_arguments: JsonObject | null, always: ApprovalScope };
export type ToolExecutionStarted = OfCall & { type: "tool_execution_started",
  idempotency_key: string, attempt: number };
export type ToolOutputDelta = OfCall & { type: "tool_output_delta", text: string };
/** The arguments are those that it was run with. */
export type ToolCallCompleted = OfCall & { type: "tool_call_completed", arguments: JsonObject
  | string, result: JsonValue };
export type ToolCallFailed = OfCall & { type: "tool_call_failed", error: JsonValue };
/** What becomes of a call, by its id. */
export type CallEvent = ToolArgsDelta | ToolArgsCompleted | ToolArgsInvalid | ApprovalRequested
  | ApprovalDecided | ToolExecutionStarted | ToolOutputDelta | ToolCallCompleted | ToolCallFailed;
export type ArgumentStarted = OfCall & { type: "argument_started", path: JsonPath, kind: JsonKind };
export type ArgumentDelta = OfCall & { type: "argument_delta", path: JsonPath, text: string };
export type ArgumentCompleted = OfCall & { type: "argument_completed", path: JsonPath,
  value: JsonValue };
/** What is told of arguments while they are written. */
export type ArgumentEvent = ArgumentStarted | ArgumentDelta | ArgumentCompleted;
export type TurnStarted = { type: "turn_started", turn: number, attempt: number };
export type TurnCompleted = { type: "turn_completed", stop_reason: string | null, usage: Usage,
  parent_id: string | null, characters_read: number | null };
/** `history` has the messages before the run. `replaces` is the run that it replaces, or "". */
export type RunStarted = { type: "run_started", run_id: string, prompt: string,
  history: JsonObject[], user: string, mode: RunMode, replaces?: string };
/** An observed run keeps its lease while it is paused, and continues by itself. */
export type RunPaused = { type: "run_paused", run_id: string, pending: ApprovalRequested[],
  keeps_lease: boolean };
/** `interrupted` are the calls that were running when it was cut off. */
export type RunResumed = { type: "run_resumed", run_id: string, cause: "pause" | "crash",
  interrupted: string[], note: string };
export type RunCompleted = { type: "run_completed", run_id: string, result: JsonValue, usage: Usage,
  stop_reason: string | null };
/** `usage` is that of all turns, including one that did not complete. */
export type RunFailed = { type: "run_failed", run_id: string, code: string, message: string,
  usage?: Usage };
export type RunStopped = { type: "run_stopped", run_id: string, reason: string, usage?: Usage };
export type RunEnd = RunCompleted | RunFailed | RunStopped;
export type StreamFailed = { type: "stream_failed", code: string, message: string,
  retryable: boolean };
/** Fields of every block in a snapshot. */
export type Seen = { turn: number, is_lost: boolean, started_at: Time, last_text_at: Time };
export type TextSnapshot = Seen & OfWords & { type: "text", text: string };
export type ThinkingSnapshot = Seen & OfWords & { type: "thinking", text: string,
  is_over: boolean };
export type CallSnapshot = Seen & OfCall & { type: "call", index: number, kind: CallKind,
  parent_id: string | null, raw: string, verdict: Verdict | null, arguments: JsonObject | string
  | null, error: ArgumentsError | null, request: ApprovalRequested | null, decision: ApprovalDecided
  | null, attempts: number, interruptions: number, output: string, outcome: "completed" | "failed"
  | null, result: JsonValue, completed_at: Time, requested_at: Time, decided_at: Time,
  executed_at: number[], ended_at: Time };
/** The state of a run up to a record. It replaces everything before it. */
export type RunSnapshot = { run_id: string, status: RunStatus, prompt: string,
  history: JsonObject[], blocks: (TextSnapshot | ThinkingSnapshot | CallSnapshot)[], turns: number,
  usage: Usage, stop_reason: string | null, end: RunEnd | null, mode: RunMode, seq: number,
  time: number, started_at: Time, ended_at: Time, conversation_id: string, agent: string,
  user: string, breaks: { cause: "pause" | "crash", started_at: number, ended_at: Time,
  call_ids: string[] }[] };
/** What happened in a run. */
export type RunEvent = TextDelta | ThinkingStarted | ThinkingDelta | ThinkingCompleted
  | ToolCallStarted | CallEvent | TurnStarted | TurnCompleted | RunStarted | RunPaused | RunResumed
  | RunEnd | StreamFailed;
/** A record of a run. `seq` is its position in the log, which a client sends to continue after
 * it. `time` is a Unix time in seconds. `arguments` are the argument events of the event's text. */
export type EventFrame = { seq: number, time: number, event: RunEvent, snapshot?: undefined,
  arguments?: ArgumentEvent[] };
/** `arguments` are the argument events of the calls in progress. */
export type SnapshotFrame = { seq: number, time: number, snapshot: RunSnapshot, event?: undefined,
  arguments?: ArgumentEvent[] };
export type Frame = EventFrame | SnapshotFrame;
/** A run, without its events: `prompt` is the beginning of its message, `pending` are its
 * approval requests, and `replaces` is the run that it was started to replace. */
export type RunInfo = { run: string, conversation: string, agent: string, status: RunStatus,
  seq: number, created: number, updated: number, is_driven: boolean, prompt: string,
  pending: { call_id: string, digest: string }[], replaces?: string };
/** A conversation, with the state of its newest run: `pending` counts its approval requests. */
export type ConversationInfo = { conversation: string, title: string, created: number,
  updated: number, run: string, status: RunStatus, is_driven: boolean, pending: number };
/** The conversations of a user, newest first, and what the server runs. A `model` named `script`
 * is the demo model. */
export type ConversationList = { agent: string, model: string, tools: string[],
  signed_in: boolean, conversations: ConversationInfo[] };
/** The same with the requests that it waits for, whole. */
export type RunDetails = Omit<RunInfo, "pending"> & { pending: ApprovalRequested[] };
export interface Decision {
  decision: "approve" | "deny";
  /** Of the request that is decided on. */
  digest: string;
  /** What is to run instead of the model's arguments. */
  arguments?: JsonObject;
  always?: ApprovalScope;
  reason?: string;
}
/** How a connection is: `waiting` until it is tried again, `closed` for good. */
export interface Connection {
  state: "connecting" | "open" | "waiting" | "closed";
  /** In how many seconds it is tried again, while it waits. */
  retryIn: number | null;
  /** What was wrong, if anything was. */
  problem: Error | null;
}
/** All are optional, and each thing is told once, over any number of connections and snapshots.
 * Text that was replaced by other text, and arguments that a person has changed, are not told as
 * if they had grown: the blocks always have what holds. */
export interface Handlers {
  /** The model says the next piece. */
  onText?: (block: Text, text: string) => void;
  /** It thinks the next piece. */
  onThinking?: (block: Thinking, text: string) => void;
  /** It calls a tool: nothing but the name is known. */
  onToolStart?: (call: Call) => void;
  /** A value has begun. */
  onArgumentStart?: (call: Call, argument: Argument) => void;
  /** A string in the arguments has grown by this much. */
  onArgumentText?: (call: Call, path: JsonPath, text: string) => void;
  /** A value in the arguments is settled. */
  onArgument?: (call: Call, path: JsonPath, value: JsonValue) => void;
  /** The arguments are whole. */
  onBlock?: (call: Call, args: JsonObject | string) => void;
  /** They will never be: this is not run. */
  onInvalid?: (call: Call, verdict: InvalidVerdict, error: ArgumentsError) => void;
  /** A person must decide. */
  onApproval?: (call: Call, request: ApprovalRequested) => void;
  /** It was decided. */
  onDecision?: (call: Call, decision: ApprovalDecided) => void;
  /** The tool says the next piece. */
  onOutput?: (call: Call, text: string) => void;
  onResult?: (call: Call, outcome: "completed" | "failed", result: JsonValue) => void;
  /** Nothing happens until a person has decided. */
  onPause?: (run: Run) => void;
  /** The run is over. */
  onDone?: (run: Run) => void;
  /** After each frame, when all else was told: these blocks have changed. */
  onChange?: (run: Run, blocks: Block[]) => void;
  /** Each frame as it came, before all else. */
  onFrame?: (frame: Frame) => void;
  onConnection?: (connection: Connection) => void;
}
/** How a lost connection is made again. Seconds throughout. */
export interface Retrying {
  /** How long to wait at first, if the server does not say; 0.25. */
  first?: number;
  /** How long at most; 10. */
  most?: number;
  /** After how much silence a connection counts as lost; 60. The server says something every 15. */
  silence?: number;
  /** Of chance, from 0 to 1, so that not all come at once. */
  random?: () => number;
  /** Waits so long, or until the signal is aborted. */
  wait?: (seconds: number, signal: AbortSignal) => Promise<void>;
}
/** How a run starts. */
export interface Starting {
  /** The conversation that it continues. */
  conversation?: string;
  /** The newest run of that conversation, which is over: the new run continues from the messages
   * before it. */
  replaces?: string;
}
export interface ClientOptions {
  /** Where the server is; by default, above the folder of this file. */
  base?: string | URL;
  /** The access token. */
  token?: string;
  fetch?: typeof fetch;
  retry?: Retrying;
}
/** The parts of a request. */
export type RequestOptions = { method?: string, query?: Record<string, string | number | undefined>,
  body?: JsonValue | object, headers?: Record<string, string>, signal?: AbortSignal };
/** Opens a stream of a run: of its beginning, or after what is known of it. */
export type Opening = (following: Following, signal: AbortSignal) => Promise<Response>;

// code.js

/** `live`: the text grows in a box that follows its end. `whole`: all rows, without a box.
 * `preview`: the first rows and a button for the rest; rows that are out of sight leave the DOM. */
export type Mode = "live" | "whole" | "preview";
export interface ViewOptions {
  /** For assistive technology */
  label: string;
  /** Shown in the toolbar */
  title?: string;
  /** As `languageNamed` returns it */
  language?: string | null;
  texts?: typeof codeTexts;
  /** Whether lines have numbers; true */
  isNumbered?: boolean;
}
export type Step = { kind: LineChange["kind"] | "gap" | "remark", text: string, isHidden?: boolean,
  marks?: Range[] | undefined };
/** A piece of text, and what it is: keyword, string… or null for nothing special. */
export type Token = [kind: string | null, text: string, isMarked?: boolean];
export type Range = [from: number, to: number];
export interface Row {
  /** Without the newline */
  text: string;
  /** Of its line */
  number: number;
  /** Whether it continues the line of the row before */
  isContinuation: boolean;
  endsLine: boolean;
}
export type LineChange = { kind: "same" | "removed" | "added", text: string };
/** What is open at the end of a row; null if nothing is. `block` returns the kind of each following
 * line: "string", or another kind for its last line; null after its end. */
export type State = { span?: Span | undefined, isEscaped?: boolean | undefined, block?: Lines }
  | null;
export type Lines = (line: string) => string | null;
/** A comment, a string, or anything else recognised by its first characters. */
export interface Span {
  kind: string;
  /** A regular expression without groups: for all of it, or for its beginning */
  open: string;
  /** The text that ends it; empty: the end of the line */
  close?: string;
  isMultiline?: boolean;
  /** Whether a backslash escapes */
  hasEscapes?: boolean;
}
export interface Rules {
  name: string;
  /** Tried in their order */
  spans: Span[];
  /** Separated by spaces */
  keywords?: string;
  /** The keywords before a name that is defined */
  definers?: string;
  ignoresCase?: boolean;
  /** Whether numbers and words have no meaning */
  isProse?: boolean;
  /** Returns the block that starts after this line, if any */
  block?: (tokens: Token[]) => Lines | null;
}

// tool-call.js

export type ShownState = "writing" | "ready" | "pending" | "approving" | "denying" | "approved"
  | "running" | "done" | "failed" | "denied" | "withdrawn" | "expired" | "blocked" | "invalid"
  | "malformed" | "stopped" | "incomplete" | "retried" | "stale";
export type Deciding = { press: () => void, mayPress: () => boolean,
  refuse: (hasMoved: boolean) => unknown };
/** What a field contains, unless there is a problem. */
export type Reading = { value: JsonValue, problem: string };
export type Change = { key: string, before: string, after: string, note: "" | "new" | "removed" };
/** An argument as it is known so far: see Argument in argstream.js. */
export interface ShownArgument {
  key: string | number | null;
  kind: string | null;
  text: string;
  value: unknown;
  isDone: boolean;
  children: ShownArgument[];
}
export type EditArguments = { old: ShownArgument, new: ShownArgument | null };
/** What surrounds an argument: the file that it belongs to, and how much of it is shown. */
export type Surroundings = { file: string | null, language: string | null, isOnlyText: boolean,
  mode: Mode };
export type Shape = "line" | "block" | "branch" | "table" | "record" | "edit";
/** An item of a list, and what it shows. */
export type Slot = { shape: Shape, argument: ShownArgument, item: Item };
