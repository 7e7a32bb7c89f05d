// Calls made by hand, for the tests of <tool-call>: `window.show(name, changes)` puts one on the
// page, `window.change(element, changes)` goes on with it.

import "../static/tool-call.js";

/** Make the tree of arguments that argstream.js would have made. */
function argumentOf(key, path, value) {
  const children =
    value !== null && typeof value === "object"
      ? Object.entries(value).map(([name, inner]) => {
          const step = Array.isArray(value) ? Number(name) : name;
          return argumentOf(step, [...path, step], inner);
        })
      : [];
  const kind = Array.isArray(value) ? "array" : value === null ? "null" : typeof value;
  return {
    key, path, value, children,
    kind: kind === "bigint" ? "number" : kind,
    text: typeof value === "string" ? value : "",
    isDone: true, startedAt: null, doneAt: null,
  };
}

let calls = 0;

/** Make a call. Its arguments are whole unless `changes` says otherwise. */
function makeCall({ request, ...changes } = {}) {
  calls += 1;
  const given = changes.arguments ?? {};
  return {
    type: "call", key: calls, callId: `call-${calls}`, index: calls - 1, name: "write_file",
    kind: "function", parentId: null, turn: 1, isLost: false,
    raw: JSON.stringify(given, (_, value) => (typeof value === "bigint" ? `${value}` : value)),
    root: argumentOf(null, [], given),
    verdict: "complete", arguments: given, error: null, decision: null, attempts: 0,
    request: request
      ? {
          type: "approval_requested", arguments: given, digest: `digest-${calls}`, rule: null,
          expires_at: null, reason: "it writes outside of the folder", ...request,
        }
      : null,
    output: "", outcome: null, result: null, startedAt: null, completedAt: null,
    requestedAt: null, decidedAt: null, executedAt: [], endedAt: null, state: "written",
    ...changes,
  };
}

/** What was decided, in order; `answers` are what the listeners say to it, one after the other. */
window.decided = [];
window.answers = [];

/** Show a call; `unfinished` is an argument of it that is still written. */
window.show = (changes = {}, options = {}) => {
  const { open = true, readonly = false, into = null, unfinished = null } = options;
  const element = document.createElement("tool-call");
  element.call = makeCall(changes);
  for (const argument of element.call.root.children) {
    if (argument.key === unfinished) argument.isDone = false;
  }
  element.open = open;
  element.readonly = readonly;
  element.addEventListener("decision", (event) => {
    window.decided.push(event.decisions);
    const answer = window.answers.shift();
    event.respondWith(
      answer === undefined
        ? Promise.resolve()
        : typeof answer === "string"
          ? Promise.reject(new Error(answer))
          : answer,
    );
  });
  (into ?? document.querySelector("main")).append(element);
  return element;
};

window.change = (element, changes) => {
  Object.assign(element.call, changes);
  if (changes.arguments) element.call.root = argumentOf(null, [], changes.arguments);
  element.refresh();
};

document.documentElement.dataset.ready = "true";
