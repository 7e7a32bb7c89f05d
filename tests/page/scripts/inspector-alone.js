async ({ log, early = [], seq }) => {
  const { Inspector } = await import("/static/inspector.js");
  window.readings = 0;
  window.logged = log;
  const client = {
    async *log() {
      window.readings += 1;
      yield* window.logged;
      await window.held;
      for (const frame of early) window.inspector.take(frame);
    },
  };
  const run = seq === undefined ? null : { seq };
  window.inspector = new Inspector({ client, runId: "run_1", run });
}
