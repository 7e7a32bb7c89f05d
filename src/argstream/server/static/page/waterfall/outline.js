/**
 * The rows of a waterfall: which blocks belong to which turn, and what is below each row. All times
 * are those of the `Run`.
 */

import { Argument, Run } from "../../argstream.js";

/** @import { Block, Call, Frame, TurnTimes } from "../../argstream.js" */
/** @typedef {TurnTimes | Block | Argument} Timed */

/** Turns in progress of agents that do not report when a turn starts.
 * @type {WeakMap<Run, TurnTimes>} */
const openTurns = new WeakMap();

/** A run whose times are seconds since its first frame, rounded to microseconds. */
export class TimedRun extends Run {
  /** @type {number | null} */
  #origin = null;

  /** @override @param {Frame} frame */
  take(frame) {
    this.#origin ??= frame.time;
    return super.take({ ...frame, time: Math.round((frame.time - this.#origin) * 1e6) / 1e6 });
  }
}

/** The rows of a run as it is now. */
export class Outline {
  /** @type {TurnTimes[]} */
  turns;
  /** @type {Map<Timed, Block[]>} */
  #blocks = new Map();
  /** The attempts of each turn. @type {Map<number, TurnTimes[]>} */
  #attempts = new Map();

  /** @param {Run} run */
  constructor(run) {
    this.run = run;
    this.turns = run.turnTimes.filter(({ parentId }) => parentId === null);
    for (const turn of this.turns) add(this.#attempts, turn.turn, turn);
    /** @type {Map<string, Call>} */
    const calls = new Map(); // as they were when a block started: an ID may be used again
    for (const block of run.blocks) {
      const call = block.parentId === null ? undefined : calls.get(block.parentId);
      add(this.#blocks, call ?? this.#turnOf(block), block);
      if (block.type === "call") calls.set(block.callId, block);
    }
  }

  /** The blocks of a turn, or of the sub-agent of a call. @param {Timed} timed */
  blocksOf(timed) {
    return this.#blocks.get(timed) ?? [];
  }

  /** Whether a turn, or that of a block, was cut off and started again. @param {Timed} timed */
  isLost(timed) {
    if ("isLost" in timed) return timed.isLost;
    return "turn" in timed && timed !== (this.#attempts.get(timed.turn) ?? [timed]).at(-1);
  }

  /** What is below a row; all turns, if there is no row. @param {Timed | null} timed */
  below(timed) {
    if (timed === null) return this.turns;
    if (timed instanceof Argument) return timed.children;
    if (!("type" in timed) || timed.type !== "call") return this.blocksOf(timed);
    return [...argumentsOf(timed), ...this.blocksOf(timed)];
  }

  /** @param {Block} block @returns {TurnTimes} */
  #turnOf({ turn, isLost, startedAt }) {
    const time = startedAt ?? 0;
    const attempts = this.#attempts.get(turn);
    if (attempts !== undefined) {
      const lost = isLost ? attempts.slice(0, -1) : [];
      return lost.findLast((one) => one.startedAt <= time) ?? attempts.at(-1) ?? this.#openTurn();
    }
    const ended = this.turns.find(({ endedAt }) => endedAt !== null && time <= endedAt);
    return ended ?? this.#openTurn();
  }

  #openTurn() {
    const last = this.turns.at(-1);
    if (last !== undefined && last.endedAt === null) return last;
    const turn = openTurns.get(this.run) ?? {
      turn: 0, attempt: 1, parentId: null, startedAt: 0, endedAt: null, end: null,
    };
    turn.turn = this.turns.length + 1;
    turn.startedAt = last?.endedAt ?? 0;
    openTurns.set(this.run, turn);
    this.turns.push(turn);
    return turn;
  }
}

/**
 * @template Key, Value
 * @param {Map<Key, Value[]>} lists
 * @param {Key} key
 * @param {Value} value
 */
function add(lists, key, value) {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [value]);
  else list.push(value);
}

/** @param {Timed} timed */
export function kindOf(timed) {
  if (timed instanceof Argument) return "argument";
  return "type" in timed ? timed.type : "turn";
}

/** The arguments of a call, as the model wrote them; of a free-text call, its text.
 * @param {Call} call @returns {Argument[]} */
export function argumentsOf({ written, isFreeText }) {
  if (!isFreeText) return written.children;
  return written.startedAt === null ? [] : [written];
}
