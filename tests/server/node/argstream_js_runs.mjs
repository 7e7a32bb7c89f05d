// Has argstream.js follow runs whose streams were recorded: a file with a JSON list of
// {streams: [text, …]}. A stream ends, and the client comes again for the next; after the
// last it is told that there is no more. Prints for each what the run is then, what the handlers
// were told, and after which seq was asked for each stream; and what was wrong on the way.
import { readFileSync } from "node:fs";
import { Client, toJson } from "../../../src/argstream/server/static/argstream.js";

const HANDLERS = [
  "onText",
  "onThinking",
  "onToolStart",
  "onArgumentStart",
  "onArgumentText",
  "onArgument",
  "onBlock",
  "onInvalid",
  "onApproval",
  "onDecision",
  "onOutput",
  "onResult",
];
const GROWING = ["onText", "onThinking", "onOutput", "onArgumentText"];

function seenOf(block) {
  const shared = { type: block.type, parent_id: block.parent, turn: block.turn };
  const more = { ...shared, is_lost: block.isLost };
  if (block.type === "text") return { ...more, block: block.block, text: block.text };
  if (block.type === "thinking") {
    return { ...more, block: block.block, text: block.text, is_over: block.isOver };
  }
  const { id, index, name, kind, raw, verdict, error, request, decision, attempts } = block;
  const written = { call_id: id, index, name, kind, raw, verdict, arguments: block.arguments };
  const { output, outcome, result } = block;
  return { ...more, ...written, error, request, decision, attempts, output, outcome, result };
}

function snapshotOf(run) {
  return {
    type: "run_snapshot",
    run_id: run.id,
    status: run.status,
    prompt: run.prompt,
    history: [],
    blocks: run.blocks.map(seenOf),
    turns: run.turns,
    usage: run.usage,
    stop_reason: run.stopReason,
    end: run.end,
  };
}

function all(argument) {
  return [argument, ...argument.children.flatMap(all)];
}

function treeOf(call) {
  return all(call.root).map(({ path, kind, text, isDone, value }) => [
    path,
    kind,
    text,
    isDone,
    isDone ? value : null,
  ]);
}

/** Sees that objects stay the same, and that what has changed is told to have. */
class Watch {
  wrong = [];
  #blocks = [];
  #arguments = [];
  #states = [];

  see(run, changed) {
    this.#blocks.forEach((block, place) => {
      if (run.blocks[place] !== block) this.wrong.push(`block ${place} is another`);
      if (block.key !== place) this.wrong.push(`block ${place} has the key ${block.key}`);
    });
    this.#blocks = [...run.blocks];
    for (const [id, call] of run.calls) {
      if (run.blocks.findLast((block) => block.id === id) !== call) this.wrong.push(`call ${id}`);
    }
    run.blocks.forEach((block, place) => {
      const state = toJson([seenOf(block), block.type === "call" ? treeOf(block) : null]);
      if (state !== this.#states[place] && !changed.includes(block)) {
        this.wrong.push(`block ${place} has changed, and nobody was told`);
      }
      this.#states[place] = state;
      // What was run need not be what was written.
      if (block.type !== "call" || block.outcome === "completed") return;
      const known = all(block.root);
      if (this.#arguments[place]?.some((argument) => !known.includes(argument))) {
        this.wrong.push(`an argument of block ${place} is another`);
      }
      this.#arguments[place] = known;
    });
  }
}

async function follow({ streams }) {
  const asked = [];
  const told = new Map();
  const ends = [];
  const watch = new Watch();
  const bodies = [...streams];
  const fetch = async (url) => {
    asked.push(Number(url.searchParams.get("after") ?? 0));
    if (!bodies.length) return new Response(null, { status: 204 });
    return new Response(bodies.shift(), { headers: { "content-type": "text/event-stream" } });
  };
  const handlers = Object.fromEntries(
    HANDLERS.map((name) => [
      name,
      (block, ...words) => {
        if (!told.has(block.key)) told.set(block.key, []);
        const said = told.get(block.key);
        const plain = words.map((word) => word?.path ?? word);
        if (GROWING.includes(name) && plain.at(-1) === "") watch.wrong.push(`${name}: nothing`);
        const last = said.at(-1);
        const place = toJson([name, ...plain.slice(0, -1)]);
        if (GROWING.includes(name) && last && toJson(last.slice(0, -1)) === place) {
          last[last.length - 1] += plain.at(-1);
        } else {
          said.push([name, ...plain]);
        }
      },
    ]),
  );
  handlers.onDone = (run) => ends.push(run.status);
  handlers.onChange = (run, changed) => watch.see(run, changed);
  const client = new Client({ base: "http://nowhere", fetch, retry: { wait: async () => {} } });
  const run = await client.follow("run_1", handlers).done;
  return {
    run: snapshotOf(run),
    conversation: run.conversation,
    seq: run.seq,
    trees: run.blocks.map((block) => (block.type === "call" ? treeOf(block) : null)),
    states: run.blocks.map((block) => block.state ?? null),
    told: run.blocks.map((block) => told.get(block.key) ?? []),
    ends,
    asked,
    wrong: watch.wrong,
  };
}

for (const entry of JSON.parse(readFileSync(process.argv[2], "utf8"))) {
  console.log(toJson(await follow(entry)));
}
