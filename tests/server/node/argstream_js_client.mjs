// Talks with argstream.js to a real server (its address, and that of one with a token), also over
// connections that break. Prints what each scene saw, one JSON a line.
import { Client, Run, toJson } from "../../../src/argstream/server/static/argstream.js";

const [url, guarded, token] = process.argv.slice(2);
const retry = { first: 0.01, most: 0.05 };

/** A fetch whose answers break after so many bytes of each stream, as often as there are sizes. */
function breaking(sizes) {
  const asked = [];
  const fetch = async (address, init) => {
    const response = await globalThis.fetch(address, init);
    asked.push(`${init.method} ${new URL(address).search}`);
    const size = sizes.shift();
    if (size === undefined || !response.body) return response;
    let left = size;
    const cutting = new TransformStream({
      transform(chunk, controller) {
        if (left > 0) controller.enqueue(chunk.subarray(0, left));
        left -= chunk.length;
        if (left <= 0) controller.error(new TypeError("terminated"));
      },
    });
    return new Response(response.body.pipeThrough(cutting), response);
  };
  return { asked, fetch };
}

/** Handlers that note what they are told, joined. */
function noting() {
  const told = { text: "", names: [], arguments: {}, values: {}, results: [], done: 0 };
  const handlers = {
    onText: (_block, text) => (told.text += text),
    onToolStart: (call) => told.names.push(call.name),
    onArgumentText: (_call, path, text) => {
      told.arguments[path.join("/")] = (told.arguments[path.join("/")] ?? "") + text;
    },
    onArgument: (_call, path, value) => (told.values[path.join("/")] = value),
    onResult: (_call, outcome, result) => told.results.push([outcome, result]),
    onDone: () => (told.done += 1),
  };
  return { told, handlers };
}

const facts = (run) => ({
  status: run.status,
  prompt: run.prompt,
  agent: run.agent,
  states: run.blocks.map((block) => (block.type === "call" ? block.state : block.type)),
  tokens: run.usage.output_tokens > 0,
  hasEnded: run.endedAt !== null,
});

/** Follows a run until it waits for a person. */
async function paused(client, message) {
  const { run } = await client.start(message);
  const following = client.follow(run, { onPause: () => following.close() });
  await following.done;
  return following.run;
}

function decisionOn(run, decision) {
  const asking = [...run.calls.values()].filter((call) => call.state === "pending");
  return Object.fromEntries(
    asking.map((call) => [call.callId, { digest: call.request.digest, ...decision }]),
  );
}

const refusal = (promise) =>
  promise.then(
    () => null,
    ({ status, type, message }) => ({ status, type, message }),
  );

const client = new Client({ base: url, retry });
const scenes = {
  async converse() {
    const { told, handlers } = noting();
    const following = client.converse("write much", { conversation: "talk é", ...handlers });
    const run = await following.done;
    const { conversationId: conversation, runId } = run;
    return { told, ...facts(run), conversation, hasId: following.runId === runId };
  },
  async broken() {
    const { told, handlers } = noting();
    const { asked, fetch } = breaking([2_000, 1, 700, 0, 1_500, 900, 3_000]);
    const bad = new Client({ base: url, fetch, retry });
    const run = await bad.converse("write much", handlers).done;
    const { told: again, handlers: others } = noting();
    await client.follow(run.runId, others).done;
    return { told, again, asked, ...facts(run) };
  },
  async approved() {
    const run = await paused(client, "send to ada");
    await client.decide(run.runId, decisionOn(run, { decision: "approve" }));
    const done = await client.follow(run.runId).done;
    return { before: facts(run), ...facts(done) };
  },
  async edited() {
    const run = await paused(client, "keep number");
    const edit = { decision: "approve", arguments: { data: { number: 12345678901234567890123n } } };
    await client.decide(run.runId, decisionOn(run, edit));
    const done = await client.follow(run.runId).done;
    const [call] = done.calls.values();
    const { request, decision, arguments: args, result } = call;
    return { request: request.arguments, edited: decision.edited_arguments, args, result };
  },
  async denied() {
    const run = await paused(client, "send to ada");
    const [id] = run.calls.keys();
    const wrong = { [id]: { decision: "approve", digest: "0" } };
    const wrongDigest = await refusal(client.decide(run.runId, wrong));
    await client.decide(run.runId, decisionOn(run, { decision: "deny", reason: "not to her" }));
    const done = await client.follow(run.runId).done;
    const second = await refusal(client.decide(run.runId, decisionOn(run, { decision: "approve" })));
    return { wrongDigest, second, ...facts(done), reason: done.calls.get(id).decision.reason };
  },
  async stopped() {
    const { run: id } = await client.start("speak at length");
    const following = client.follow(id);
    await client.stop(id, "enough");
    const run = await following.done;
    const info = await client.run(id);
    await client.forget(id);
    const known = await refusal(client.run(id));
    const gone = await refusal(client.follow(id).done);
    return { ...facts(run), reason: run.end.reason, info: info.status, known, gone };
  },
  async listed() {
    const run = await paused(client, "send to ada");
    const { conversationId: conversation } = run;
    const [info] = await client.runs({ status: "paused", conversation, limit: 5 });
    const busy = client.converse("hello", { conversation });
    const refused = await refusal(busy.done);
    const detailed = await client.run(run.runId);
    await client.stop(run.runId);
    const { prompt, status, pending } = info;
    const reasons = detailed.pending.map(({ reason }) => reason);
    return { prompt, status, pending: pending.length, reasons, refused };
  },
  async log() {
    const run = await client.converse("write much").done;
    const frames = [];
    for await (const frame of client.log(run.runId)) frames.push(frame);
    const replayed = new Run();
    for (const frame of frames) replayed.take(frame);
    const rest = [];
    const after = run.seq - 2;
    for await (const { seq } of client.log(run.runId, { after })) rest.push(seq - run.seq);
    for await (const frame of client.log(run.runId)) if (frame.seq === 1) break;
    const text = (one) => toJson(one.blocks.map(({ raw, text: said }) => raw ?? said));
    const seqs = frames.map(({ seq }) => seq);
    const [call] = replayed.calls.values();
    const times = [call.startedAt, call.completedAt, ...call.executedAt, call.endedAt];
    return {
      isSame: text(replayed) === text(run),
      isWhole: seqs.every((seq, place) => seq === place + 1) && seqs.length === run.seq,
      rest,
      isTimed: times.every((time, place) => time !== null && time >= (times[place - 1] ?? 0)),
    };
  },
  async token() {
    const stranger = new Client({ base: guarded });
    const known = new Client({ base: guarded, token });
    const refused = await refusal(stranger.follow("any").done);
    const { status } = await known.converse("hello").done;
    const wrong = await refusal(stranger.signIn("a wrong one, and long"));
    await stranger.signIn(token);
    await stranger.signOut();
    const [session, own] = [await stranger.session(), await known.session()];
    return { refused, status, wrong, session, own };
  },
};

const failed = [];
await Promise.all(
  Object.entries(scenes).map(async ([scene, play]) => {
    try {
      console.log(toJson({ scene, ...(await play()) }));
    } catch (error) {
      failed.push(`${scene}: ${error.stack}`);
    }
  }),
);
if (failed.length) throw new Error(failed.join("\n\n"));
