// The states of a call: in words, as a sign, and which of them are final. One vocabulary, so that a
// pill, a strip and a test say the same of the same thing.

/** @import { Call } from "../argstream.js" */

const over = new Set(["completed", "failed", "denied", "invalid", "lost"]);

/** @type {Record<string, string>} */
const verdicts = {
  truncated: "cut off",
  aborted: "called off",
  malformed: "malformed",
  rejected: "rejected",
};

/** @type {Record<string, string>} */
const decisions = { denied: "denied", expired: "expired", withdrawn: "withdrawn" };

/** @type {Record<string, string>} */
const states = {
  writing: "being written",
  written: "written",
  pending: "asks for approval",
  approved: "approved",
  running: "running",
  completed: "done",
  failed: "failed",
  denied: "denied",
  invalid: "invalid",
  lost: "lost",
};

/** @type {Record<string, string>} */
const glyphs = { pending: "?", completed: "✓", failed: "✕", denied: "⊘", invalid: "!", lost: "↺" };

/**
 * Say in a few words how it stands with a call.
 * @param {Call} call
 */
export function stateWords(call) {
  const { state, verdict, decision } = call;
  if (state === "invalid") return (verdict && verdicts[verdict]) ?? "invalid";
  if (state === "denied") return (decision && decisions[decision.decision]) ?? "denied";
  return states[state] ?? state;
}

/**
 * The sign of a state, for those who do not see its colour; none where a dot is shown.
 * @param {string} state
 */
export function stateGlyph(state) {
  return glyphs[state] ?? "";
}

/**
 * Whether nothing more becomes of a call in this state.
 * @param {string} state
 */
export function isOver(state) {
  return over.has(state);
}
