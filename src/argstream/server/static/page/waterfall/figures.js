/**
 * What a timeline comes to, in figures and in words: computed from what was noted, never made up.
 * The words hold names that the model gave: who shows them makes them visible.
 */

import { pathWords } from "../../tool-call/words.js";
import { duration } from "../times.js";
import { merged } from "./time-axis.js";

/** @import { CallTimes, Key, Timeline } from "./timeline.js" */
/** @import { Stretch } from "./time-axis.js" */

const LONGEST_NAME = 40;
const LONGEST_LABEL = 200; // a model may write a name of any length; nobody reads it
const ENDS = new Map([
  ["complete", "the last brace"],
  ["truncated", "the call was found cut off"],
  ["malformed", "the call was found malformed"],
  ["rejected", "the call was refused"],
  ["aborted", "the call was broken off"],
]);

/** @param {readonly Key[]} path */
export function pathName(path) {
  return path.length === 0 ? "(text)" : pathWords(path).slice(0, LONGEST_LABEL);
}

/** @param {CallTimes} call */
export function callName(call) {
  const name = call.name.slice(0, LONGEST_LABEL);
  return call.tool === "function" ? name : `${name} (${call.tool})`;
}

/**
 * Say for how long who waits for the ends of calls would have seen nothing of them.
 *
 * Calls that are written side by side share their silence: it is counted once.
 *
 * @param {Timeline} timeline
 */
export function silence(timeline) {
  const written = timeline.calls.flatMap(({ startedAt, endedAt }) =>
    endedAt === null ? [] : [{ begin: startedAt, end: endedAt }],
  );
  return merged(written).reduce((sum, { begin, end }) => sum + end - begin, 0);
}

/**
 * Say how long before the call's end its first argument was visible; 0 if none was.
 *
 * @param {CallTimes} call
 */
function lead(call) {
  const first = call.text ?? call.inside.values().next().value; // the document is in time's order
  return call.endedAt === null || first === undefined ? 0 : call.endedAt - first.visibleAt;
}

/**
 * Say what was gained, in a sentence; "" if no call has come to its end.
 *
 * @param {Timeline} timeline
 */
export function conclusion(timeline) {
  const ended = timeline.calls.filter(({ endedAt }) => endedAt !== null);
  let [best] = ended;
  if (best === undefined) return "";
  const quiet = silence(timeline);
  if (quiet <= 0) {
    const which = ended.length === 1 ? "The call" : "Each call";
    return `${which} came whole: there was no silence to replace.`;
  }
  const replaced = `${duration(quiet)} of silence were replaced`;
  for (const call of ended) if (lead(call) - lead(best) > 0.0005) best = call;
  if (lead(best) <= 0) return `In all, ${replaced}.`;
  const of = timeline.calls.length > 1 ? ` of ${short(best.name)}` : "";
  const joint = ended.length > 1 ? "; in all," : ":";
  const end = `before ${endOf(best)}`;
  return `The first argument${of} was visible ${duration(lead(best))} ${end}${joint} ${replaced}.`;
}

/** What the end of a call was, as somebody waits for it. @param {CallTimes} call */
function endOf(call) {
  if (call.isFreeText && call.verdict === "complete") return "the last character";
  return ENDS.get(call.verdict ?? "aborted") ?? "the call ended";
}

/** @param {string} name */
function short(name) {
  return name.length <= LONGEST_NAME ? name : `${name.slice(0, LONGEST_NAME)}…`;
}

/**
 * Give when the tool of a call ran, as far as that is known.
 *
 * Who runs a tool elsewhere tells only when the result was there. An attempt that a crash cut off
 * is drawn up to the next one, or to where it was noticed.
 *
 * @param {CallTimes} call
 * @param {number} now
 * @returns {(Stretch & {isCut: boolean})[]}
 */
export function toolRuns(call, now) {
  const starts = call.executedAt.length > 0 ? call.executedAt : allowedElsewhere(call);
  return starts.map((begin, attempt) => ({
    begin,
    end: starts[attempt + 1] ?? call.finishedAt ?? now,
    isCut: attempt < call.interruptions,
  }));
}

/** @param {CallTimes} call @returns {number[]} */
function allowedElsewhere(call) {
  const isAllowed = call.decision === "approved" || call.decision === "edited";
  const whole = call.verdict === "complete" ? call.endedAt : null;
  const allowed = call.askedAt === null ? whole : isAllowed ? call.decidedAt : null;
  const isKnown = allowed !== null && call.finishedAt !== null && call.finishedAt !== allowed;
  return isKnown ? [allowed] : [];
}

/**
 * Give the times in which something was written or a tool ran. A person who is asked is no work.
 *
 * @param {Timeline} timeline
 * @returns {Stretch[]}
 */
export function busy(timeline) {
  const words = timeline.words.map(({ startedAt, lastAt }) => ({ begin: startedAt, end: lastAt }));
  const calls = timeline.calls.flatMap((call) => [
    { begin: call.startedAt, end: call.endedAt ?? call.lastAt },
    ...toolRuns(call, timeline.now).map(({ begin, end, isCut }) => ({
      begin,
      end: isCut ? begin : end,
    })),
  ]);
  return [...words, ...calls];
}
