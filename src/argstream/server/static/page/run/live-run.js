/**
 * A run that is followed as long as somebody may look at it.
 *
 * A browser allows six connections to a host, over all of its tabs: so a tab that is hidden for a
 * while lets go of its stream, asks now and then how the run stands, and is back at once when seen.
 */

import { isOver } from "../wording.js";

/** @typedef {import("../../argstream.js").Client} Client */
/** @typedef {import("../../argstream.js").Following} Following */
/** @typedef {import("../../argstream.js").Handlers} Handlers */
/** @typedef {import("../../argstream.js").RunDetails} RunDetails */

const PATIENCE = 30_000;
const INTERVAL = 15_000;

export class LiveRun {
  /**
   * @param {object} options
   * @param {Client} options.client
   * @param {string} options.runId
   * @param {Handlers} options.handlers
   * @param {(info: RunDetails) => void} options.onInfo what is heard of it while it is hidden
   * @param {(problem: unknown) => void} options.onProblem it cannot be followed
   * @param {Following} [options.following] that it was begun with
   */
  constructor({ client, runId, handlers, onInfo, onProblem, following }) {
    this.#client = client;
    this.#runId = runId;
    this.#handlers = handlers;
    this.#onInfo = onInfo;
    this.#onProblem = onProblem;
    document.addEventListener("visibilitychange", this.#look);
    const first = following ?? client.follow(runId, handlers);
    this.#run = first.run;
    this.#watch(first);
    this.#look();
  }

  #client;
  #runId;
  #handlers;
  #onInfo;
  #onProblem;
  #run;
  /** @type {Following | null} */
  #following = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #isClosed = false;

  /** Let go of it; it goes on without us. */
  close() {
    this.#isClosed = true;
    document.removeEventListener("visibilitychange", this.#look);
    clearTimeout(this.#timer);
    this.#following?.close();
    this.#following = null;
  }

  /** @param {Following} following */
  async #watch(following) {
    this.#following = following;
    try {
      await following.done;
    } catch (problem) {
      if (this.#following === following) this.#onProblem(problem);
    }
    // Let go of while the tab was hidden, it is not over; otherwise there is nothing more to see.
    if (this.#following === following) this.close();
  }

  #look = () => {
    clearTimeout(this.#timer);
    if (document.hidden) {
      this.#timer = setTimeout(() => this.#letGo(), PATIENCE);
    } else if (this.#following === null && !this.#isClosed) {
      this.#watch(this.#comeAgain());
    }
  };

  /** Follow the run anew, but go on with what is shown: somebody may be editing in it. */
  #comeAgain() {
    const { onFrame, onChange, onConnection } = this.#handlers;
    return this.#client.follow(this.#runId, {
      onFrame: (frame) => {
        onFrame?.(frame);
        onChange?.(this.#run, this.#run.take(frame));
      },
      ...(onConnection === undefined ? {} : { onConnection }),
    });
  }

  #letGo() {
    const following = this.#following;
    this.#following = null;
    following?.close();
    this.#ask();
  }

  async #ask() {
    try {
      const info = await this.#client.run(this.#runId);
      this.#onInfo(info);
      if (isOver(info.status)) return;
    } catch {
      // It is asked again, and whoever looks at the page is told then.
    }
    if (!this.#isClosed && document.hidden) {
      this.#timer = setTimeout(() => this.#ask(), INTERVAL);
    }
  }
}
