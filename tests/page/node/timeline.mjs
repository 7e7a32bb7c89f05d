// Prints what the modules of the timeline and the replay compute for a test: one JSON a line.

import { readFileSync } from "node:fs";

const given = JSON.parse(readFileSync(process.argv[2], "utf8"));
const { folder, runs = [], axes = [], schedules = [], paths = [] } = given;
// What the element <tool-call> needs of a browser when it is defined.
Object.assign(globalThis, {
  HTMLElement: class {},
  CSSStyleSheet: class { replaceSync() {} },
  customElements: { define() {} },
  document: { addEventListener() {} },
});
const { TimeAxis, TimedRun, storyOf } = await import(`${folder}/inspector.js`);
const { pathWords } = await import(`${folder}/dom.js`);
const { Schedule } = await import(`${folder}/replay.js`);

const print = (value) => console.log(JSON.stringify(value));

for (const frames of runs) {
  const run = new TimedRun();
  for (const frame of frames) run.take(frame);
  const rows = [...rowsOf(run, null, null, 0)];
  print({ now: run.time, rows });
}

/** The rows below one: their depths and contents. */
function* rowsOf(run, above, call, depth) {
  for (const timed of run.below(above)) {
    const owner = timed.path ? (call ?? above) : null;
    yield { depth, ...storyOf(timed, owner, run) };
    yield* rowsOf(run, timed, owner, depth + 1);
  }
}

for (const { stretches, most, times } of axes) {
  const axis = new TimeAxis(stretches.map(([begin, end]) => ({ begin, end })));
  print({
    labels: axis.ticks(most).map(({ label }) => label),
    places: times.map((time) => axis.of(time)),
    left: axis.gaps.reduce((sum, { seconds }) => sum + seconds, 0),
  });
}

for (const times of schedules) {
  const schedule = new Schedule();
  times.forEach((time) => schedule.add(time));
  const counts = times.map((_, index) => schedule.countBy(index));
  print({ counts, seconds: schedule.seconds });
}

if (paths.length > 0) print(paths.map(pathWords));
