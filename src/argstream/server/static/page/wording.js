/**
 * The words of the page for how a run stands and what went wrong: the same wherever they are shown.
 */

import { ServerProblem } from "../argstream.js";

/** @type {Map<string, { glyph: string, word: string }>} */
const STATUSES = new Map([
  ["running", { glyph: "●", word: "Running" }],
  ["paused", { glyph: "?", word: "Waits for you" }],
  ["completed", { glyph: "✓", word: "Done" }],
  ["failed", { glyph: "✕", word: "Failed" }],
  ["stopped", { glyph: "■", word: "Stopped" }],
  ["replayed", { glyph: "▶", word: "Replay" }],
]);

/** @param {string} status */
export function statusWords(status) {
  return STATUSES.get(status) ?? { glyph: "·", word: "Unknown" };
}

/** @param {string} status */
export function isOver(status) {
  return status === "completed" || status === "failed" || status === "stopped";
}

/**
 * Join names: "one", "one and two", "one, two and three".
 *
 * @param {readonly string[]} names
 */
export function listed(names) {
  if (names.length < 2) return names.join("");
  return `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

/**
 * Say what went wrong; never nothing, and never a stack.
 *
 * @param {unknown} problem
 */
export function problemWords(problem) {
  const words = problem instanceof Error ? problem.message : String(problem);
  return words === "" ? "Something went wrong." : sentence(words);
}

/**
 * Say whether what was asked for is not on the server.
 *
 * @param {unknown} problem
 */
export function isMissing(problem) {
  return problem instanceof ServerProblem && (problem.status === 404 || problem.status === 410);
}

/** @param {string} words */
export function sentence(words) {
  const [first = ""] = words;
  const begun = first.toUpperCase() + words.slice(first.length);
  return /[.!?…]$/.test(begun) ? begun : `${begun}.`;
}
