// Replays the runs of a file such as tests/runs/fixtures/runs.json in argstream.js. Prints for each
// run the states at the places that the file has states for, one JSON a line.
import { readFileSync } from "node:fs";
import { Run, parseJson, toJson } from "../../../src/argstream/server/static/argstream.js";
import { factsOf } from "./facts.mjs";

for (const { frames, states } of parseJson(readFileSync(process.argv[2], "utf8"))) {
  const seqs = new Set(states.map(({ seq }) => seq));
  const run = new Run();
  const seen = [];
  for (const frame of frames) {
    run.take(frame);
    run.take({ ...frame, snapshot: undefined, time: 0 }); // a frame that comes twice changes nothing
    if (seqs.has(run.seq)) seen.push(parseJson(toJson(factsOf(run))));
  }
  console.log(toJson(seen));
}
