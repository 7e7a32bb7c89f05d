// How long a call has been in its state, by this machine's own clock. The times of the events are
// the server's: its clock may differ, and in a replay they are long past. So what goes on is timed
// from when it was first seen here, and what is over by the server's times alone.

/** @import { Call } from "../argstream.js" */

/** @type {WeakMap<Call, Map<string, number>>} */
const seen = new WeakMap();

/**
 * Seconds since this call was first seen in the state that it is in.
 * @param {Call} call
 */
export function secondsInState(call) {
  let states = seen.get(call);
  if (!states) seen.set(call, (states = new Map()));
  const now = performance.now() / 1000;
  const since = states.get(call.state);
  if (since === undefined) states.set(call.state, now);
  return since === undefined ? 0 : now - since;
}

/**
 * Seconds from one time of the server to another, or null if one of them is not known.
 * @param {number | null} from
 * @param {number | null} to
 */
export function secondsBetween(from, to) {
  return from === null || to === null ? null : to - from;
}

/**
 * Seconds that are left to decide on a call, or null if it can wait for ever.
 * @param {Call} call
 */
export function secondsLeft(call) {
  const until = call.request?.expires_at ?? null;
  if (until === null) return null;
  // If it is known when it was asked, both ends are the server's and its clock does not matter.
  if (call.requestedAt !== null) return until - call.requestedAt - secondsInState(call);
  return until - Date.now() / 1000;
}
