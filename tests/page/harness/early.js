// Sets the properties of an element that is not defined yet.

const element = document.querySelector("tool-call");
element.call = {
  callId: "early", name: "early", state: "written", raw: "{}", arguments: {}, verdict: "complete",
  root: { key: null, path: [], kind: "object", text: "", value: {}, isDone: true, children: [] },
  request: null, decision: null, error: null, output: "", outcome: null, result: null,
  startedAt: null, executedAt: [], endedAt: null, requestedAt: null,
};
element.open = true;
element.readonly = true;
await import("../static/tool-call.js");
