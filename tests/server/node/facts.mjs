// The state of a run in the names of Python: the same as `facts_of` of tests/runs/facts.py.

const RUN = `run_id status prompt user mode turns usage stop_reason end failures seq time started_at
  ended_at`;
const TEXT = "type block parent_id turn text is_over is_lost started_at last_text_at";
const CALL = `type call_id index name kind parent_id turn is_lost is_free_text is_pending state raw
  verdict arguments written_arguments error request decision attempts interruptions output outcome
  result started_at last_text_at completed_at requested_at decided_at executed_at ended_at`;
const TURN = "turn attempt parent_id started_at ended_at";
const BREAK = "cause started_at ended_at call_ids";

function fields(thing, names) {
  return Object.fromEntries(
    names.split(/\s+/).map((name) => {
      const own = name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
      if (!(own in thing)) throw new Error(`there is no ${own}`);
      return [name, thing[own]];
    }),
  );
}

export function blockFacts(block) {
  if (block.type !== "call") return fields(block, TEXT);
  const tree = block.isLost ? [] : rows(block.root);
  const written = block.written === block.root ? [] : rows(block.written);
  return { ...fields(block, CALL), tree, written };
}

function rows(argument) {
  const { key, path, kind, value, isDone, startedAt, doneAt, children } = argument;
  const own = [path, kind, value, isDone, startedAt, key === null ? null : doneAt];
  return [own, ...children.flatMap(rows)];
}

export function factsOf(run) {
  return {
    ...fields(run, RUN),
    pending: run.pending.map(({ call_id }) => call_id),
    blocks: run.blocks.map(blockFacts),
    turn_times: run.turnTimes.map((turn) => ({
      ...fields(turn, TURN),
      end: turn.end?.stop_reason ?? null,
    })),
    breaks: run.breaks.map((one) => fields(one, BREAK)),
  };
}
