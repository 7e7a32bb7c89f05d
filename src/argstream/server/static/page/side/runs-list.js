/**
 * The list of runs, newest first: asked for again and again while somebody can see it.
 *
 * Rows are kept by the ids of their runs, in the order in which those began, which never changes:
 * so new ones come in above, and nothing else moves.
 */

import { part } from "../parts.js";
import { problemWords } from "../wording.js";
import { RunRow } from "./run-row.js";

/** @typedef {import("../../argstream.js").Client} Client */
/** @typedef {import("../../argstream.js").RunInfo} RunInfo */

const INTERVAL = 3000;
/** What changes within this time is asked for at once. */
const SOON = 150;
const PAGE = 50;
const MOST = 1000;

export class RunsList {
  /**
   * @param {object} options
   * @param {Client} options.client
   * @param {(infos: readonly RunInfo[], isAll: boolean) => void} options.onRuns
   * @param {(runId: string) => void} options.onForgotten
   * @param {(problem: unknown, retryIn: number) => void} options.onProblem the list is asked for
   *   again after so many seconds
   */
  constructor({ client, onRuns, onForgotten, onProblem }) {
    this.#client = client;
    this.#onRuns = onRuns;
    this.#onForgotten = onForgotten;
    this.#onProblem = onProblem;
    this.#more.addEventListener("click", () => {
      this.#limit = Math.min(this.#limit + PAGE, MOST);
      this.refresh();
    });
    document.addEventListener("visibilitychange", () => this.refresh());
    window.addEventListener("online", () => this.refresh());
  }

  #client;
  #onRuns;
  #onForgotten;
  #onProblem;
  #list = part("runs-list", HTMLElement);
  /** For words in place of rows. */
  #note = part("runs-note", HTMLElement);
  #more = part("runs-more", HTMLElement);
  #limit = PAGE;
  /** @type {Map<string, RunRow>} */
  #rows = new Map();
  #current = "";
  #asked = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /** Ask in a moment: something here has changed, and perhaps more does. */
  refreshSoon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.refresh(), SOON);
  }

  /** Ask now, and from then on every few seconds. */
  async refresh() {
    clearTimeout(this.#timer);
    if (document.hidden) return;
    const asked = ++this.#asked;
    try {
      const infos = await this.#client.runs({ limit: this.#limit });
      if (asked !== this.#asked) return; // it was asked again in the meantime
      this.#show(infos);
      this.#onRuns(infos, infos.length < this.#limit);
    } catch (problem) {
      if (asked !== this.#asked) return;
      if (this.#rows.size === 0) this.#tell(problemWords(problem));
      this.#onProblem(problem, INTERVAL / 1000);
    }
    this.#timer = setTimeout(() => this.refresh(), INTERVAL);
  }

  /** @param {string} runId that is looked at */
  setCurrent(runId) {
    if (runId === this.#current) return;
    this.#current = runId;
    for (const [id, row] of this.#rows) row.setCurrent(id === runId);
    this.#rows.get(runId)?.element.scrollIntoView({ block: "nearest" });
  }

  /** @param {readonly RunInfo[]} infos */
  #show(infos) {
    const sorted = infos.toSorted((one, other) => other.created - one.created);
    const known = new Set(sorted.map((info) => info.run));
    for (const [id, row] of this.#rows) {
      if (!known.has(id)) this.#remove(id, row);
    }
    const wasThere = this.#rows.has(this.#current);
    const last = this.#list.lastElementChild;
    let before = this.#list.firstElementChild;
    for (const info of sorted) {
      const row = this.#rows.get(info.run) ?? this.#make(info);
      row.show(info);
      if (row.element === before) before = before.nextElementSibling;
      else this.#list.insertBefore(row.element, before);
    }
    this.#tell(sorted.length === 0 ? "No runs yet." : "");
    const hadFocus = document.activeElement === this.#more;
    this.#more.hidden = infos.length < this.#limit || this.#limit >= MOST;
    if (hadFocus && this.#more.hidden) focusRow(last?.nextElementSibling ?? last);
    if (!wasThere) this.#rows.get(this.#current)?.element.scrollIntoView({ block: "nearest" });
  }

  /** @param {RunInfo} info */
  #make(info) {
    const row = new RunRow(info, (runId) => this.#forget(runId));
    row.setCurrent(info.run === this.#current);
    this.#rows.set(info.run, row);
    return row;
  }

  /**
   * @param {string} id
   * @param {RunRow} row
   */
  #remove(id, row) {
    this.#rows.delete(id);
    const hadFocus = row.element.contains(document.activeElement);
    const near = row.element.nextElementSibling ?? row.element.previousElementSibling;
    row.element.remove();
    if (hadFocus) focusRow(near);
  }

  /** @param {string} runId */
  async #forget(runId) {
    await this.#client.forget(runId);
    this.#onForgotten(runId);
    await this.refresh();
  }

  /** @param {string} words */
  #tell(words) {
    this.#note.textContent = words;
    this.#note.hidden = words === "";
  }
}

/** @param {Element | null} row without one, the list itself is meant */
function focusRow(row) {
  (row?.querySelector("a") ?? part("new", HTMLElement)).focus();
}
