async (name) => {
  const { RunView, loadMarkdown } = await import(
    new URL("conversation.js", document.querySelector("script").src).href);
  await loadMarkdown();
  const { Run } = await import(new URL("argstream.js", document.querySelector("script").src).href);
  const { paint, afterPainting } = await import(new URL("dom.js", document.querySelector("script").src).href);
  const run = new Run("burden");
  const words = (text, block = 0) => ({ type: "text_delta", text, block, parent_id: null });
  const call = (n) => ({
    type: "tool_call_started", call_id: `call ${n}`, index: n, name: "search", kind: "function",
    parent_id: null,
  });
  const events = {
    fences: [words("```\n```\n".repeat(2000))],
    paragraphs: [words("a\n\n".repeat(8000))],
    line: [words("word ".repeat(30000))],
    code: [words("```\n" + "code line\n".repeat(10000))],
    name: Array.from({ length: 600 }, () => words("```" + "x".repeat(400))),
    texts: Array.from({ length: 2000 }, (_, n) => words(`Text ${n}. `, n)),
    calls: Array.from({ length: 60 }, (_, n) => call(n)),
  }[name];
  events.forEach((event, n) => run.take({ seq: n + 1, time: 1, event, arguments: [] }));
  const slow = new RunView();
  let most = 0;
  for (let size = 0, looks = 0; looks < 50; looks += 1) {
    const isDone = slow.update(run, looks === 0 ? run.blocks : [], () => false);
    const now = slow.element.textContent.length + slow.element.querySelectorAll("*").length;
    most = Math.max(most, now - size);
    size = now;
    if (isDone) break;
  }
  const [view, blocks] = [new RunView(), [...run.blocks]];
  document.querySelector("#conversation").replaceChildren(view.element);
  const scroller = document.querySelector("#scroller");
  await new Promise((resolve) => {
    paint((hasTime) => {
      afterPainting(() => (scroller.scrollTop = scroller.scrollHeight));
      const isDone = view.update(run, blocks.splice(0), hasTime);
      if (isDone) resolve();
      return isDone;
    });
  });
  await new Promise((resolve) => setTimeout(resolve, 100));
  const withoutMarks = (text) => text.replace(/[\s`]/g, "");
  const text = run.blocks.map((block) => block.text ?? "").join("");
  const isWhole = name === "fences" || name === "paragraphs" || name === "code"
    || withoutMarks(view.element.textContent) === withoutMarks(text);
  const skipped = view.element.querySelectorAll(".full").length;
  return { most, isWhole, skipped, calls: view.element.querySelectorAll("tool-call").length };
}
