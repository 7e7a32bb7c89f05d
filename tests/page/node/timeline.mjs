// Says what the modules of the waterfall and the replay make of what a test gives: one JSON a line.

import { readFileSync } from "node:fs";

const given = JSON.parse(readFileSync(process.argv[2], "utf8"));
const { folder, runs = [], axes = [], schedules = [] } = given;
const { Timeline } = await import(`${folder}/waterfall/timeline.js`);
const { TimeAxis } = await import(`${folder}/waterfall/time-axis.js`);
const { conclusion, pathName, silence } = await import(`${folder}/waterfall/figures.js`);
const { Schedule } = await import(`${folder}/replay/schedule.js`);
const { storyOf } = await import(`${folder}/waterfall/story.js`);

const tell = (value) => console.log(JSON.stringify(value));

for (const frames of runs) {
  const timeline = new Timeline();
  for (const frame of frames) {
    timeline.take(frame);
    timeline.take(frame); // who comes twice changes nothing
  }
  tell({
    now: timeline.now,
    silence: silence(timeline),
    conclusion: conclusion(timeline),
    turns: timeline.turns.map((one) => [one.turn, one.attempt, one.startedAt, one.endedAt]),
    placed: timeline.turns.flatMap(({ blocks }) => inside(blocks)).length,
    words: timeline.words.length,
    calls: timeline.calls.map((call) => ({
      id: call.id,
      name: call.name,
      started: call.startedAt,
      last: call.lastAt,
      ended: call.endedAt,
      verdict: call.verdict,
      asked: call.askedAt,
      decided: call.decidedAt,
      decision: call.decision,
      executed: call.executedAt,
      interruptions: call.interruptions,
      finished: call.finishedAt,
      isLost: call.isLost,
      arguments: [...all(call.arguments)].map(({ path, visibleAt, settledAt }) => [
        path,
        pathName(path),
        visibleAt,
        settledAt,
      ]),
      bars: storyOf(call, timeline).bars.map(({ begin, end }) => [begin, end]),
    })),
  });
}

for (const { stretches, most, times } of axes) {
  const axis = new TimeAxis(stretches.map(([begin, end]) => ({ begin, end })));
  tell({
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
  tell({ shortened, counts, seconds, saved, recorded });
}

function* all(argumentTimes) {
  for (const one of argumentTimes) {
    yield one;
    yield* all(one.inside?.values() ?? []);
  }
}

function inside(blocks) {
  return blocks.flatMap((block) => [block, ...inside(block.blocks ?? [])]);
}
