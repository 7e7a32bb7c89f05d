async (cause) => {
  const from = (name) => import(new URL(name, document.querySelector("script").src).href);
  const { RunView, loadMarkdown } = await from("conversation.js");
  const { Run } = await from("argstream.js");
  await loadMarkdown();
  const [run, view] = [new Run("run_1"), new RunView()];
  [
    { type: "turn_started", turn: 1, attempt: 1 },
    { type: "text_delta", text: "I begin", block: 0, parent_id: null },
    { type: "run_resumed", cause, interrupted: [], note: "" },
    { type: "turn_started", turn: 1, attempt: 2 },
  ].forEach((event, n) => run.take({ seq: n + 1, time: n, event, arguments: [] }));
  view.update(run, run.blocks);
  return view.element.textContent;
}
