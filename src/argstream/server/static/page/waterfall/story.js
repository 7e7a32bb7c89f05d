/**
 * What one row of a waterfall tells, before it is known how that is shown: its label, its times,
 * its bars. The words hold what the model wrote: who shows them makes them visible.
 */

import { countOf } from "../../tool-call/words.js";
import { duration, moment } from "../times.js";
import { callName, pathName, toolRuns } from "./figures.js";

/** @import { ArgumentTimes, CallTimes, Times, Timeline } from "./timeline.js" */
/** @import { TurnTimes, WordTimes } from "./timeline.js" */

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

const DECISIONS = new Map([
  ["approved", "approved"],
  ["edited", "approved with changes"],
  ["denied", "denied"],
  ["expired", "no decision came in time"],
  ["withdrawn", "withdrawn"],
]);

/**
 * Tell of a turn, of words, of a call or of an argument.
 *
 * @param {Times} times
 * @param {Timeline} timeline
 * @returns {Story}
 */
export function storyOf(times, timeline) {
  switch (times.kind) {
    case "turn":
      return turnStory(times, timeline);
    case "call":
      return callStory(times, timeline);
    case "argument":
      return argumentStory(times);
    default:
      return wordStory(times);
  }
}

/** @param {TurnTimes} turn @param {Timeline} timeline @returns {Story} */
function turnStory(turn, timeline) {
  const isOpen = turn.endedAt === null && timeline.end === null && !turn.isLost;
  const end = turn.endedAt ?? lastOf(turn, timeline);
  const again = turn.attempt > 1 ? `, attempt ${turn.attempt}` : "";
  const calls = turn.blocks.filter(({ kind }) => kind === "call").length;
  const notes = [duration(end - turn.startedAt)];
  if (calls > 0) notes.push(countOf(calls, "call"));
  if (turn.isLost) notes.push("cut off, began again");
  const ended = turn.endedAt === null ? [] : [`ended at ${exact(turn.endedAt)}`];
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

/** When anything of a turn came last. @param {TurnTimes} turn @param {Timeline} timeline */
function lastOf(turn, timeline) {
  const next = timeline.turns[timeline.turns.indexOf(turn) + 1];
  return next === undefined ? timeline.now : next.startedAt;
}

/** @param {WordTimes} words @returns {Story} */
function wordStory(words) {
  return {
    label: words.kind === "text" ? "Text" : "Thinking",
    note: words.beginning,
    visibleAt: words.startedAt,
    settledAt: words.lastAt,
    sooner: null,
    bars: [{ look: words.kind, begin: words.startedAt, end: words.lastAt }],
    mark: "",
    exactly: [
      `first character at ${exact(words.startedAt)}`,
      `last one at ${exact(words.lastAt)}`,
    ],
  };
}

/** @param {CallTimes} call @param {Timeline} timeline @returns {Story} */
function callStory(call, timeline) {
  const goesOn = timeline.end === null && !call.isLost;
  const end = call.endedAt ?? call.lastAt;
  const isWritten = call.endedAt === null && goesOn;
  /** @type {Bar[]} */
  const bars = [{ look: "call", begin: call.startedAt, end, isOpen: isWritten }];
  const notes = [];
  const exactly = [`its name was visible at ${exact(call.startedAt)}`];
  if (call.endedAt === null) notes.push(isWritten ? "is being written" : "never whole");
  else if (call.verdict === "complete") exactly.push(`it was whole at ${exact(call.endedAt)}`);
  else exactly.push(`found ${call.verdict} at ${exact(call.endedAt)}`);
  if (call.verdict !== null && call.verdict !== "complete") notes.push(call.verdict);
  if (call.isLost) notes.push("lost");
  if (call.askedAt !== null) {
    const waiting = { begin: call.askedAt, end: call.decidedAt ?? timeline.now };
    bars.push({ look: "waiting", ...waiting, isOpen: call.decidedAt === null && goesOn });
    exactly.push(`a person was asked at ${exact(call.askedAt)}`);
    if (call.decidedAt !== null) {
      const decision = DECISIONS.get(call.decision ?? "") ?? "decided";
      notes.push(`waited ${duration(waiting.end - waiting.begin)} for a person: ${decision}`);
      exactly.push(`${decision} at ${exact(call.decidedAt)}`);
    } else notes.push(goesOn ? "waits for a person" : "not decided");
  }
  for (const { begin, end: until, isCut } of toolRuns(call, timeline.now)) {
    const isOpen = call.finishedAt === null && !isCut && goesOn;
    bars.push({ look: "running", begin, end: until, isOpen });
    exactly.push(`its tool began at ${exact(begin)}`);
    if (isCut) notes.push("tool was cut off");
    else notes.push(isOpen ? "runs" : `ran ${duration(until - begin)}`);
  }
  if (call.finishedAt !== null) {
    const result = call.outcome === "failed" ? "failure" : "result";
    exactly.push(`its ${result} was there at ${exact(call.finishedAt)}`);
  }
  if (call.outcome === "failed" && call.verdict === "complete") notes.push("failed");
  return {
    label: callName(call),
    note: notes.join(", "),
    visibleAt: call.startedAt,
    settledAt: call.endedAt,
    sooner: call.endedAt === null ? null : call.endedAt - call.startedAt,
    bars,
    mark: markOf(call),
    exactly,
  };
}

/** @param {CallTimes} call @returns {Story["mark"]} */
function markOf(call) {
  if (call.isLost || call.outcome === "failed") return "bad";
  if (call.verdict === null) return "open";
  if (call.verdict !== "complete") return "bad";
  return call.outcome === "completed" ? "good" : "open";
}

/** @param {ArgumentTimes} argument @returns {Story} */
function argumentStory(argument) {
  const { call, path, visibleAt, settledAt, inside } = argument;
  const whole = call.endedAt;
  const end = settledAt ?? whole ?? call.lastAt;
  /** @type {Bar[]} */
  const bars = [
    { look: "written", begin: visibleAt, end, isOpen: settledAt === null && whole === null },
  ];
  if (whole !== null && whole > end) bars.push({ look: "readable", begin: end, end: whole });
  const exactly = [`visible at ${exact(visibleAt)}`];
  exactly.push(settledAt === null ? "never settled" : `settled at ${exact(settledAt)}`);
  if (whole !== null) {
    const sooner = `visible ${exact(whole - visibleAt)} sooner`;
    exactly.push(`the call ended at ${exact(whole)}: ${sooner}`);
  }
  return {
    label: pathName(path.slice(-1)),
    note: inside === null ? argument.beginning : `${countOf(inside.size, "value")} inside`,
    visibleAt,
    settledAt,
    sooner: whole === null ? null : whole - visibleAt,
    bars,
    mark: settledAt !== null ? "" : whole === null ? "open" : "bad",
    exactly,
  };
}

/** @param {number} seconds */
function exact(seconds) {
  return moment(seconds, { digits: 3 });
}
