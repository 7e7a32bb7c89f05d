// Follows runs with argstream.js whose streams are in a file: a JSON list of {streams: [text, …]}.
// When a stream ends, the client reconnects for the next. After the last one it gets a 204. Prints
// for each run its state, the calls of the handlers, the seq after which each stream was requested,
// and what was wrong on the way.
import { readFileSync } from "node:fs";
import { Client, toJson } from "../../../src/argstream/server/static/argstream.js";
import { blockFacts, factsOf } from "./facts.mjs";

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

function all(argument) {
  return [argument, ...argument.children.flatMap(all)];
}

/** Checks that objects stay the same, and that every change is reported. */
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
      if (run.blocks.findLast((block) => block.callId === id) !== call) this.wrong.push(`call ${id}`);
    }
    run.blocks.forEach((block, place) => {
      const state = toJson(blockFacts(block));
      if (state !== this.#states[place] && !changed.includes(block)) {
        this.wrong.push(`block ${place} has changed, which was not reported`);
      }
      this.#states[place] = state;
      if (block.type !== "call") return;
      if (block.outcome === "completed") {
        // The arguments that ran replace those that were written, also if a later event says that
        // the call has failed.
        this.#arguments[place] = [];
        return;
      }
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
    facts: factsOf(run),
    told: run.blocks.map((block) => told.get(block.key) ?? []),
    ends,
    asked,
    wrong: watch.wrong,
  };
}

for (const entry of JSON.parse(readFileSync(process.argv[2], "utf8"))) {
  console.log(toJson(await follow(entry)));
}
