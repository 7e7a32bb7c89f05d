async (frames) => {
  const { Replay } = await import("/static/replay.js");
  window.shown = [];
  window.views = 0;
  const client = {
    async *log() { yield* frames; },
  };
  const makeView = () => {
    window.views += 1;
    const element = document.createElement("div");
    return { element, update: (run) => window.shown.push(run.seq) };
  };
  const place = document.querySelector("#conversation");
  window.replay = new Replay({ client, runId: "run_1", place, makeView });
}
