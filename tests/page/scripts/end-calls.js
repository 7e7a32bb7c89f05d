async () => {
  const from = (name) => import(new URL(name, document.querySelector("script").src).href);
  const { RunView, loadMarkdown } = await from("conversation.js");
  const { Run } = await from("argstream.js");
  await loadMarkdown();
  const isOpen = (name, given) => {
    const [run, view] = [new Run("run_1"), new RunView()];
    const call = { call_id: "call", name, arguments: given };
    [
      { type: "run_started", run_id: "run_1", prompt: "Do it", mode: "agent" },
      { type: "tool_call_started", ...call, index: 0, kind: "function", parent_id: null },
      { type: "tool_args_completed", ...call },
      { type: "tool_call_completed", ...call, result: "done" },
      { type: "text_delta", text: "It is done.", block: 1, parent_id: null },
    ].forEach((event, n) => {
      view.update(run, run.take({ seq: n + 1, time: n, event, arguments: [] }));
    });
    return view.element.querySelector("tool-call").open;
  };
  const edits = [{ old: "one", new: "two" }];
  return [
    isOpen("edit_file", { path: "a.py", edits }),
    isOpen("write_file", { path: "a.py", content: "two" }),
  ];
}
