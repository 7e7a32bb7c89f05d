/**
 * The figures and sentences of a waterfall, computed from the times of a run. They contain names
 * that the model chose: use `visibleLine` to show them.
 */

import { pathWords } from "../../tool-call/words.js";
import { duration } from "../times.js";
import { argumentsOf } from "./outline.js";
import { merged } from "./time-axis.js";

/** @import { Call, JsonPath, Run } from "../../argstream.js" */
/** @import { Stretch } from "./time-axis.js" */

const LONGEST_NAME = 40;
const LONGEST_LABEL = 200; // a model may write a name of any length
const ENDS = new Map([
  ["complete", "the last brace"],
  ["truncated", "the call was found cut off"],
  ["malformed", "the call was found malformed"],
  ["rejected", "the call was refused"],
  ["aborted", "the call was broken off"],
]);

/** @param {JsonPath} path */
export function pathName(path) {
  return path.length === 0 ? "(text)" : pathWords(path).slice(0, LONGEST_LABEL);
}

/** @param {Call} call */
export function callName(call) {
  const name = call.name.slice(0, LONGEST_LABEL);
  return call.kind === "function" ? name : `${name} (${call.kind})`;
}

/** The calls of a run, also those of lost turns. @param {Run} run */
export function callsOf(run) {
  return run.blocks.filter((block) => block.type === "call");
}

/**
 * Return for how many seconds a client that waits for complete calls would have shown nothing. Calls
 * that are written at the same time count once.
 *
 * @param {Run} run
 */
export function silence(run) {
  const written = callsOf(run).flatMap(({ startedAt, completedAt }) =>
    completedAt === null ? [] : [{ begin: startedAt ?? 0, end: completedAt }],
  );
  return merged(written).reduce((sum, { begin, end }) => sum + end - begin, 0);
}

/**
 * Return how long before the call's end its first argument was visible; 0 if none was.
 *
 * @param {Call} call
 */
function lead(call) {
  const [first] = argumentsOf(call); // the order of the text is that of time
  if (call.completedAt === null || first === undefined) return 0;
  return call.completedAt - (first.startedAt ?? 0);
}

/**
 * Return what was gained, as a sentence; "" if no call has ended.
 *
 * @param {Run} run
 */
export function conclusion(run) {
  const calls = callsOf(run);
  const ended = calls.filter(({ completedAt }) => completedAt !== null);
  let [best] = ended;
  if (best === undefined) return "";
  const quiet = silence(run);
  if (quiet <= 0) {
    const which = ended.length === 1 ? "The call" : "Each call";
    return `${which} came whole: there was no silence to replace.`;
  }
  const replaced = `${duration(quiet)} of silence were replaced`;
  for (const call of ended) if (lead(call) - lead(best) > 0.0005) best = call;
  if (lead(best) <= 0) return `In all, ${replaced}.`;
  const of = calls.length > 1 ? ` of ${short(best.name)}` : "";
  const joint = ended.length > 1 ? "; in all," : ":";
  const end = `before ${endOf(best)}`;
  return `The first argument${of} was visible ${duration(lead(best))} ${end}${joint} ${replaced}.`;
}

/** @param {Call} call */
function endOf(call) {
  if (call.isFreeText && call.verdict === "complete") return "the last character";
  return ENDS.get(call.verdict ?? "aborted") ?? "the call ended";
}

/** @param {string} name */
function short(name) {
  return name.length <= LONGEST_NAME ? name : `${name.slice(0, LONGEST_NAME)}…`;
}

/**
 * Return when the tool of a call ran, as far as that is known.
 *
 * If another program runs the tool, only the time of the result is known. An attempt that a crash
 * cut off is drawn up to the next attempt, or to the call's end.
 *
 * @param {Call} call
 * @param {number} now
 * @returns {(Stretch & {isCut: boolean})[]}
 */
export function toolRuns(call, now) {
  const starts = call.executedAt.length > 0 ? call.executedAt : observedStart(call);
  return starts.map((begin, attempt) => ({
    begin,
    end: starts[attempt + 1] ?? call.endedAt ?? now,
    isCut: attempt < call.interruptions,
  }));
}

/** @param {Call} call @returns {number[]} */
function observedStart(call) {
  const { verdict, decision, requestedAt, decidedAt, completedAt, endedAt } = call;
  const isAllowed = decision?.decision === "approved" || decision?.decision === "edited";
  const whole = verdict === "complete" ? completedAt : null;
  const allowed = requestedAt === null ? whole : isAllowed ? decidedAt : null;
  return allowed !== null && endedAt !== null && endedAt !== allowed ? [allowed] : [];
}

/**
 * Return the times in which something was written or a tool ran, without the time of approvals.
 *
 * @param {Run} run
 * @returns {Stretch[]}
 */
export function busy(run) {
  return run.blocks.flatMap((block) => {
    const begin = block.startedAt ?? 0;
    const written = { begin, end: block.lastTextAt ?? begin };
    if (block.type !== "call") return [written];
    const tools = toolRuns(block, run.time);
    return [written, ...tools.map((one) => ({ ...one, end: one.isCut ? one.begin : one.end }))];
  });
}
