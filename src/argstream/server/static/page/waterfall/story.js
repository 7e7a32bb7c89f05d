/**
 * The content of one row of a waterfall: its label, its times, its bars. The texts contain what the
 * model wrote: use `visibleLine` to show them.
 */

import { countOf } from "../../tool-call/words.js";
import { duration, moment } from "../times.js";
import { callName, pathName, toolRuns } from "./figures.js";
import { kindOf } from "./outline.js";

/** @import { Argument, Call, Run, Text, Thinking, TurnTimes } from "../../argstream.js" */
/** @import { Outline, Timed } from "./outline.js" */

/**
 * The whole turn; a call while it is written; words; an argument; an argument that is there while
 * the call is not whole; a person who is asked; a tool.
 *
 * @typedef {"extent" | "call" | "text" | "thinking" | "written" | "readable" | "waiting"
 *   | "running"} Look
 */
/** @typedef {{look: Look, begin: number, end: number, isOpen?: boolean}} Bar */
/**
 * @typedef {object} Story
 * @property {string} label
 * @property {string} note what else is to say of it, shortly
 * @property {number} visibleAt
 * @property {number | null} settledAt
 * @property {number | null} sooner how long it was visible before the call was whole
 * @property {Bar[]} bars
 * @property {"" | "good" | "bad" | "open"} mark how it ended
 * @property {string[]} exactly all times, in words
 */

const BEGINNING = 80; // characters
const DECISIONS = new Map([
  ["approved", "approved"],
  ["edited", "approved with changes"],
  ["denied", "denied"],
  ["expired", "no decision came in time"],
  ["withdrawn", "withdrawn"],
]);

/**
 * Return the content of a row.
 *
 * @param {Timed} timed
 * @param {Call | null} call that an argument belongs to
 * @param {Outline} outline
 * @returns {Story}
 */
export function storyOf(timed, call, outline) {
  switch (kindOf(timed)) {
    case "turn":
      return turnStory(/** @type {TurnTimes} */ (timed), outline);
    case "call":
      return callStory(/** @type {Call} */ (timed), outline.run);
    case "argument":
      return argumentStory(/** @type {Argument} */ (timed), /** @type {Call} */ (call));
    default:
      return textStory(/** @type {Text | Thinking} */ (timed));
  }
}

/** @param {TurnTimes} turn @param {Outline} outline @returns {Story} */
function turnStory(turn, outline) {
  const { run, turns } = outline;
  const isLost = outline.isLost(turn);
  const end = turn.endedAt ?? turns[turns.indexOf(turn) + 1]?.startedAt ?? run.time;
  const again = turn.attempt > 1 ? `, attempt ${turn.attempt}` : "";
  const calls = outline.blocksOf(turn).filter(({ type }) => type === "call").length;
  const notes = [duration(end - turn.startedAt)];
  if (calls > 0) notes.push(countOf(calls, "call"));
  if (isLost) notes.push("cut off, began again");
  const ended = turn.endedAt === null ? [] : [`ended at ${exact(turn.endedAt)}`];
  const isOpen = turn.endedAt === null && run.end === null && !isLost;
  return {
    label: `Turn ${turn.turn}${again}`,
    note: notes.join(", "),
    visibleAt: turn.startedAt,
    settledAt: turn.endedAt,
    sooner: null,
    bars: [{ look: "extent", begin: turn.startedAt, end, isOpen }],
    mark: "",
    exactly: [`began at ${exact(turn.startedAt)}`, ...ended],
  };
}

/** @param {Text | Thinking} block @returns {Story} */
function textStory({ type, text, startedAt, lastTextAt }) {
  const begin = startedAt ?? 0;
  const end = lastTextAt ?? begin;
  return {
    label: type === "text" ? "Text" : "Thinking",
    note: beginningOf(text),
    visibleAt: begin,
    settledAt: end,
    sooner: null,
    bars: [{ look: type, begin, end }],
    mark: "",
    exactly: [`first character at ${exact(begin)}`, `last one at ${exact(end)}`],
  };
}

/** @param {Call} call @param {Run} run @returns {Story} */
function callStory(call, run) {
  const { completedAt, requestedAt, decidedAt, endedAt, verdict } = call;
  const goesOn = run.end === null && !call.isLost;
  const begin = call.startedAt ?? 0;
  const isWritten = completedAt === null && goesOn;
  /** @type {Bar[]} */
  const bars = [{ look: "call", begin, end: call.lastTextAt ?? begin, isOpen: isWritten }];
  const notes = [];
  const exactly = [`its name was visible at ${exact(begin)}`];
  if (completedAt === null) notes.push(isWritten ? "is being written" : "never whole");
  else if (verdict === "complete") exactly.push(`it was whole at ${exact(completedAt)}`);
  else exactly.push(`found ${verdict} at ${exact(completedAt)}`);
  if (verdict !== null && verdict !== "complete") notes.push(verdict);
  if (call.isLost) notes.push("lost");
  if (requestedAt !== null) {
    const waiting = { begin: requestedAt, end: decidedAt ?? run.time };
    bars.push({ look: "waiting", ...waiting, isOpen: decidedAt === null && goesOn });
    exactly.push(`a person was asked at ${exact(requestedAt)}`);
    if (decidedAt !== null) {
      const decision = DECISIONS.get(call.decision?.decision ?? "") ?? "decided";
      notes.push(`waited ${duration(waiting.end - waiting.begin)} for a person: ${decision}`);
      exactly.push(`${decision} at ${exact(decidedAt)}`);
    } else notes.push(goesOn ? "waits for a person" : "not decided");
  }
  for (const { begin: from, end, isCut } of toolRuns(call, run.time)) {
    const isOpen = endedAt === null && !isCut && goesOn;
    bars.push({ look: "running", begin: from, end, isOpen });
    exactly.push(`its tool began at ${exact(from)}`);
    if (isCut) notes.push("tool was cut off");
    else notes.push(isOpen ? "runs" : `ran ${duration(end - from)}`);
  }
  if (endedAt !== null) {
    const result = call.outcome === "failed" ? "failure" : "result";
    exactly.push(`its ${result} was there at ${exact(endedAt)}`);
  }
  if (call.outcome === "failed" && verdict === "complete") notes.push("failed");
  return {
    label: callName(call),
    note: notes.join(", "),
    visibleAt: begin,
    settledAt: completedAt,
    sooner: completedAt === null ? null : completedAt - begin,
    bars,
    mark: markOf(call),
    exactly,
  };
}

/** @param {Call} call @returns {Story["mark"]} */
function markOf(call) {
  if (call.isLost || call.outcome === "failed") return "bad";
  if (call.verdict === null) return "open";
  if (call.verdict !== "complete") return "bad";
  return call.outcome === "completed" ? "good" : "open";
}

/** @param {Argument} argument @param {Call} call @returns {Story} */
function argumentStory(argument, call) {
  const { path, children, doneAt } = argument;
  const whole = call.completedAt;
  const begin = argument.startedAt ?? 0;
  const end = doneAt ?? whole ?? call.lastTextAt ?? begin;
  /** @type {Bar[]} */
  const bars = [{ look: "written", begin, end, isOpen: doneAt === null && whole === null }];
  if (whole !== null && whole > end) bars.push({ look: "readable", begin: end, end: whole });
  const exactly = [`visible at ${exact(begin)}`];
  exactly.push(doneAt === null ? "never settled" : `settled at ${exact(doneAt)}`);
  if (whole !== null) {
    exactly.push(`the call ended at ${exact(whole)}: visible ${exact(whole - begin)} sooner`);
  }
  return {
    label: pathName(path.slice(-1)),
    note: children.length > 0 ? `${countOf(children.length, "value")} inside` : noteOf(argument),
    visibleAt: begin,
    settledAt: doneAt,
    sooner: whole === null ? null : whole - begin,
    bars,
    mark: doneAt !== null ? "" : whole === null ? "open" : "bad",
    exactly,
  };
}

/** @param {Argument} argument */
function noteOf({ kind, text, isDone, value }) {
  if (kind === "string") return beginningOf(text);
  return isDone && (value === null || typeof value !== "object") ? String(value) : "";
}

/** Return how a text begins, as one line. @param {string} text */
function beginningOf(text) {
  return text.slice(0, 4 * BEGINNING).replace(/[\t\n ]+/g, " ").trimStart().slice(0, BEGINNING);
}

/** @param {number} seconds */
function exact(seconds) {
  return moment(seconds, { digits: 3 });
}
