// What an editor knows of argstream.js and of <tool-call>. This file is never run: tsc reads it, by
// `make types`. Each line below a `@ts-expect-error` is wrong, and the check fails if it is not
// refused.
import {
  type Argument,
  type Block,
  type Call,
  Client,
  type Connection,
  type Frame,
  type Handlers,
  type JsonValue,
  Run,
  type RunInfo,
  ServerProblem,
  parseJson,
  toJson,
} from "../../../src/argstream/server/static/client.js";
import "../../../src/argstream/server/static/tool-call.js";

const client = new Client({ base: "http://localhost:8000", token: "secret" });

const handlers: Handlers = {
  onText: (block, text) => [block.block.toFixed(), text.trim(), block.type satisfies "text"],
  onThinking: (block) => block.isOver satisfies boolean,
  onArgumentStart: (call, argument) => [call.callId, argument.kind satisfies Argument["kind"]],
  onArgumentText: (call: Call, path, text: string) => [call.name, path[0], text],
  onArgument: (_call, _path, value: JsonValue) => toJson(value, 2),
  onInvalid: (_call, verdict, error) => [verdict === "truncated", error.path],
  onApproval: (call, request) =>
    client.decide("run", { [call.callId]: { decision: "approve", digest: request.digest } }),
  onResult: (_call, outcome) => outcome === "completed",
  onChange: (run: Run, blocks: Block[]) => [run.status, blocks.length],
  onConnection: ({ state, retryIn }: Connection) => state === "waiting" && retryIn?.toFixed(),
};

export async function uses(): Promise<RunInfo[]> {
  const following = client.converse("Hello", { conversation: "talk", ...handlers });
  const run = await following.done;
  for (const block of run.blocks) {
    if (block.type === "call") block.root.children.map(({ path }) => path);
    else block.text.trim();
    // @ts-expect-error: only texts and thoughts have a text
    block.text;
  }
  for await (const frame of client.log(run.runId)) {
    if (frame.event.type === "tool_args_delta") frame.event.delta.trim();
    // @ts-expect-error: not every event has a delta
    frame.event.delta;
  }
  const replayed: Block[] = new Run().take(parseJson("{}") as Frame);
  replayed.pop();
  const { run: id } = await client.start("Hello");
  await client.decide(id, {
    call: { decision: "approve", digest: "0", arguments: { number: 2n ** 70n }, always: "rule" },
  });
  const problem = new ServerProblem(404, { detail: "gone" });
  problem.retryAfter?.toFixed();
  return client.runs({ status: "paused", limit: 3 });
}

export async function misuses(call: Call, run: Run): Promise<void> {
  // @ts-expect-error: a message is a string
  await client.start(7);
  // @ts-expect-error: there is no such handler
  client.follow("run", { onTexts: () => {} });
  // @ts-expect-error: a piece is a string
  client.follow("run", { onText: (_block, text: number) => text });
  // @ts-expect-error: a decision needs the digest of what was shown
  await client.decide("run", { call: { decision: "approve" } });
  // @ts-expect-error: nothing is decided like this
  await client.decide("run", { call: { decision: "yes", digest: "0" } });
  // @ts-expect-error: no run has such a status
  await client.runs({ status: "done" });
  // @ts-expect-error: what a run says is JSON, which has no dates
  toJson((await client.run("run")).pending[0]?.arguments["date"] satisfies Date);
  // @ts-expect-error: no call is in such a state
  if (call.state === "done") return;
  // @ts-expect-error: a request may be missing
  call.request.digest;
  // @ts-expect-error: it is known by its id, not by its place
  run.calls.get(0);
  // @ts-expect-error: a frame has an event or a snapshot
  run.take({ seq: 1, time: 1 });
  // @ts-expect-error: it is no URL
  new Client({ base: 8000 });
}

export function shows(call: Call): HTMLElement {
  const element = document.createElement("tool-call");
  element.call = call;
  element.open = element.readonly || element.stale;
  element.labels = { approve: "OK" };
  // @ts-expect-error: there is no such text
  element.labels = { approval: 7 };
  if (element.isReadyToApprove) element.approve();
  element.addEventListener("decision", (event) =>
    event.respondWith(client.decide("run", event.decisions)),
  );
  element.addEventListener("click", ({ clientX }) => clientX.toFixed());
  window.addEventListener("beforeunload", (event) => {
    if (document.querySelector("tool-call")?.hasUnsentEdit) event.preventDefault();
  });
  // @ts-expect-error: what it shows is a call
  element.call = call.callId;
  // @ts-expect-error: a decision is about calls, not about one call
  element.addEventListener("decision", (event) => event.decision);
  // @ts-expect-error: nobody can set that
  element.hasUnsentEdit = false;
  return element;
}
