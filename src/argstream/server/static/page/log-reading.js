/**
 * Reading the log of a run that may be long: the page stays alive meanwhile, and who has lost
 * interest stops it.
 */

/** @import { Client, EventFrame } from "../argstream.js" */

/** @typedef {Pick<Client, "log">} LogClient */

const SLICE = 8; // milliseconds

/**
 * Read a log to what is now its end.
 *
 * @param {LogClient} client
 * @param {string} runId
 * @param {(frame: EventFrame) => void} take
 * @param {() => boolean} isWanted
 * @returns {Promise<boolean>} whether it was read to its end
 */
export async function readLog(client, runId, take, isWanted) {
  let until = performance.now() + SLICE;
  for await (const frame of client.log(runId)) {
    if (!isWanted()) return false;
    take(frame);
    if (performance.now() < until) continue;
    await othersHadTheirTurn();
    until = performance.now() + SLICE;
  }
  return isWanted();
}

/** @returns {Promise<void>} */
function othersHadTheirTurn() {
  return new Promise((resolve) => setTimeout(resolve));
}
