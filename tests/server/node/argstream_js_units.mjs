// Has argstream.js read what a file holds: {streams: [text, …], numbers: [text, …]}. Prints one
// JSON a line: what is read of the streams, however they are cut; of numbers, by engines that tell
// what was written and by those that do not; and what becomes of large inputs.
import { readFileSync } from "node:fs";

const PATH = "../../../src/argstream/server/static/argstream.js";
const { Client, EventStreamReader, Run, parseJson, toJson } = await import(PATH);
const { streams, numbers } = JSON.parse(readFileSync(process.argv[2], "utf8"));

const print = (value) => console.log(toJson(value));

function read(pieces) {
  const reader = new EventStreamReader();
  return { data: pieces.flatMap((piece) => reader.feed(piece)), retry: reader.retry };
}

/** All ways to cut a text into two pieces and, if it is short, into three; and into characters. */
function* cuts(text) {
  yield text.split("");
  yield [text, "", ""];
  for (let first = 0; first <= text.length; first += 1) {
    yield [text.slice(0, first), text.slice(first)];
    for (let second = first; second <= text.length && text.length < 80; second += 1) {
      yield [text.slice(0, first), text.slice(first, second), text.slice(second)];
    }
  }
}

for (const stream of streams) {
  const ways = new Set([...cuts(stream)].map((pieces) => toJson(read(pieces))));
  print({ test: "stream", ways: [...ways].map((way) => JSON.parse(way)) });
}

// Bytes: cut inside of characters, and after a byte order mark.

const BEGIN = { type: "run_started", run_id: "r", prompt: "é😀\u2028\ufeff" };
const FRAME = { seq: 1, time: 2, event: BEGIN };
const END = { seq: 2, time: 3, event: { type: "run_stopped", reason: "", run_id: "r" } };
const bytes = new TextEncoder().encode(
  `\ufeffretry: 5\r\n\r\nid: 1\rdata: ${toJson(FRAME)}\r\n\ndata: ${toJson(END)}\n\n`,
);
const prompts = new Set();
for (let place = 0; place <= bytes.length; place += 1) {
  const body = new ReadableStream({
    start(controller) {
      controller.enqueue(bytes.subarray(0, place));
      controller.enqueue(bytes.subarray(place));
      controller.close();
    },
  });
  const headers = { "content-type": "text/event-stream; charset=utf-8" };
  const fetch = async () => new Response(body, { headers });
  const run = await new Client({ base: "http://nowhere", fetch }).follow("r").done;
  prompts.add(`${run.prompt} ${run.status}`);
}
print({ test: "bytes", prompts: [...prompts] });

// Numbers

function readNumber(parse, text) {
  try {
    return { value: parse(text) };
  } catch (error) {
    return { refused: error.name };
  }
}

const { parse } = JSON;
JSON.parse = (text, reviver) =>
  parse(text, reviver && ((key, value) => reviver.call(undefined, key, value)));
const old = await import(`${PATH}?old`);
const byOld = numbers.map((text) => readNumber(old.parseJson, text));
JSON.parse = parse;
print({ test: "numbers", new: numbers.map((text) => readNumber(parseJson, text)), old: byOld });

const plain = { a: [1, "x\n", null, { b: true, "": [] }, {}], "\u2028": "\ud800", no: undefined };
const written = [undefined, 0, 1, 2, 4].map((indent) => toJson(plain, indent));
const asStringify = [undefined, 0, 1, 2, 4].map((indent) => JSON.stringify(plain, null, indent));
print({ test: "as stringify", same: toJson(written) === toJson(asStringify) });

// As many pages have it, since JSON.stringify refuses a BigInt.
BigInt.prototype.toJSON = function () {
  return String(this);
};
const huge = toJson({ huge: [2n ** 70n, -0, 2 ** 60] });
delete BigInt.prototype.toJSON;
print({ test: "helped", text: huge });

// Large: what is quadratic would not end in time.

const SMALL = "x".repeat(64);
const MANY = 150_000;
const one = new EventStreamReader();
one.feed("data: ");
let events = [];
for (let count = 0; count < MANY; count += 1) events.push(...one.feed(SMALL));
events.push(...one.feed("\n\n"));
print({ test: "large frame", lengths: events.map((event) => event.length) });

const run = new Run();
const call = { call_id: "c", name: "write" };
let seq = 0;
const take = (event, views) => run.take({ seq: (seq += 1), time: seq, event, arguments: views });
take({ type: "tool_call_started", index: 0, kind: "function", parent_id: null, ...call });
const start = { type: "argument_started", path: ["text"], kind: "string", ...call };
take({ type: "tool_args_delta", delta: '{"text": "', ...call }, [start]);
for (let count = 0; count < MANY; count += 1) {
  const view = { type: "argument_delta", path: ["text"], text: SMALL, ...call };
  take({ type: "tool_args_delta", delta: SMALL, ...call }, [view]);
  take({ type: "text_delta", text: SMALL, block: 0, parent_id: null });
  take({ type: "tool_output_delta", text: SMALL, ...call });
}
const [grown, said] = run.blocks;
const { root, raw, output } = grown;
print({
  test: "large run",
  lengths: [root.children[0].text, raw.slice(10), output, said.text].map(({ length }) => length),
});

// A log that has lost its end with its machine: blocks that the snapshot does not have are dropped.

const text = (block, words, more = {}) => ({
  type: "text",
  block,
  text: words,
  parent_id: null,
  turn: 1,
  is_lost: false,
  ...more,
});
const snapshot = (at, ...blocks) => ({
  seq: at,
  time: at,
  snapshot: { run_id: "r", status: "running", blocks, breaks: [], conversation_id: "talk" },
});
const cut = new Run();
cut.take(snapshot(5, text(0, "One"), text(1, "two"), text(2, "three")));
const [kept, other, gone] = cut.blocks;
const changed = cut.take(snapshot(3, text(0, "On"), text(1, "2", { parent_id: "task" })));
const [again, fresh, ...more] = cut.blocks;
cut.take({ seq: 4, time: 4, event: { type: "text_delta", text: "e", block: 0, parent_id: null } });
print({
  test: "lost end",
  isKept: again === kept && !kept.isLost && kept.text === "One",
  isFresh: fresh !== other && fresh.key !== other.key && fresh.text === "2" && !more.length,
  isLost: other.isLost && gone.isLost && changed.includes(other) && changed.includes(gone),
  place: [cut.seq, cut.conversationId],
});
