async () => {
  let visited = 0;
  begin("import_rows");
  reach(["rows"]).kind = "array";
  const { children } = call.root.children[0];
  for (let at = 0; at < 1000; at += 1) {
    children.push({
      key: at, kind: "number", text: "", value: at, children: [],
      get isDone() { visited += 1; return true; },
    });
    if (at % 10) continue;
    view.refresh();
    await new Promise((resolve) => requestAnimationFrame(resolve));
  }
  view.refresh();
  await painted();
  return visited;
}
