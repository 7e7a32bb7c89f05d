// Prints what the modules of the waterfall and the replay compute for a test: one JSON a line.

import { readFileSync } from "node:fs";

const given = JSON.parse(readFileSync(process.argv[2], "utf8"));
const { folder, runs = [], axes = [], schedules = [], paths = [] } = given;
const { Outline, TimedRun } = await import(`${folder}/waterfall/outline.js`);
const { TimeAxis } = await import(`${folder}/waterfall/time-axis.js`);
const { conclusion, pathName, silence } = await import(`${folder}/waterfall/figures.js`);
const { Schedule } = await import(`${folder}/replay/schedule.js`);
const { storyOf } = await import(`${folder}/waterfall/story.js`);

const print = (value) => console.log(JSON.stringify(value));

for (const frames of runs) {
  const run = new TimedRun();
  for (const frame of frames) run.take(frame);
  const rows = [...rowsOf(new Outline(run), null, null, 0)];
  print({ now: run.time, silence: silence(run), conclusion: conclusion(run), rows });
}

/** The rows below one: their depths and contents. */
function* rowsOf(outline, above, call, depth) {
  for (const timed of outline.below(above)) {
    const owner = timed.path ? (call ?? above) : null;
    const isLost = outline.isLost(owner ?? timed);
    yield { depth, isLost, ...storyOf(timed, owner, outline) };
    yield* rowsOf(outline, timed, owner, depth + 1);
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
  const shortened = times.map((_, index) => schedule.at(index));
  const counts = shortened.map((time) => schedule.countBy(time));
  const { seconds, saved } = schedule;
  schedule.isShortened = false;
  const recorded = times.map((_, index) => schedule.at(index));
  print({ shortened, counts, seconds, saved, recorded });
}

if (paths.length > 0) print(paths.map(pathName));
