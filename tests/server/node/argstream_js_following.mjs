// How argstream.js follows a run where the connection is bad: each scene has a fetch of its own,
// which answers as it likes. Prints what each scene saw, one JSON a line.
import {
  Client,
  ConnectionLost,
  ServerProblem,
  toJson,
} from "../../../src/argstream/server/static/argstream.js";

const STREAM = { "content-type": "text/event-stream" };
const RUN = "run_1";
const POSTED = { "x-argstream-run": RUN, "x-argstream-conversation": "talk%20%C3%A9" };
const NEVER = { first: 1_000, most: 1_000 };

const frame = (seq, event) =>
  `id: ${seq}\ndata: ${toJson({ seq, time: 1_000 + seq, event })}\n\n`;
const BEGIN = frame(1, { type: "run_started", run_id: RUN, prompt: "Go", user: "" });
const say = (seq, text) => frame(seq, { type: "text_delta", text, block: 0, parent_id: null });
const END = (seq) => frame(seq, { type: "run_stopped", reason: "enough", run_id: RUN });

const stream = (text, headers = {}) => new Response(text, { headers: { ...STREAM, ...headers } });
function problem(status, code, more = {}) {
  const told = { type: `urn:argstream:${code}`, title: code, status, detail: `no: ${code}` };
  const headers = { "content-type": "application/problem+json", ...more };
  return new Response(toJson(told), { status, headers });
}

/** A stream that never ends by itself; it heeds the signal, as that of a browser does. */
function endless(text, signal) {
  return stream(
    new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode(text));
        signal.addEventListener("abort", () => controller.error(signal.reason));
      },
    }),
  );
}

/** An answer that never comes. */
function hanging(signal) {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason));
  });
}

/** A stream that breaks after some text. */
function broken(text) {
  let isSent = false;
  return stream(
    new ReadableStream({
      pull(controller) {
        if (isSent) controller.error(new TypeError("terminated"));
        else controller.enqueue(new TextEncoder().encode(text));
        isSent = true;
      },
    }),
  );
}

/** Answers one request after the other; what is a function is called, what is an Error thrown. */
function server(answers) {
  const asked = [];
  const fetch = async (url, init) => {
    const { pathname, search } = new URL(url);
    asked.push({
      asked: `${init.method} ${pathname}${search}`,
      lastEventId: init.headers.get("last-event-id"),
    });
    const answer = answers.shift();
    if (answer instanceof Error) throw answer;
    return typeof answer === "function" ? answer(init.signal) : answer;
  };
  return { asked, fetch };
}

function told(error) {
  if (error === null) return null;
  const { name, message, status = null, type = null, retryAfter = null } = error;
  return { name, message, status, type, retryAfter };
}

/** Follows a run, and says all that could be seen of it. */
async function follow(answers, options = {}) {
  const { asked, fetch } = server(answers);
  const waits = [];
  const states = [];
  const texts = [];
  const wait = async (seconds) => void waits.push(seconds);
  const retry = { wait, random: () => 1, ...options.retry };
  const client = new Client({ base: "http://nowhere/agent", fetch, retry });
  const handlers = {
    onText: (_block, text) => texts.push(text),
    onConnection: ({ state, problem: why }) =>
      states.push(why ? `${state}: ${why.message}` : state),
    ...options.handlers,
  };
  const following = options.message
    ? client.converse(options.message, handlers)
    : client.follow(RUN, handlers);
  options.begun?.(following);
  const done = await following.done.then(
    ({ status, seq }) => ({ status, seq }),
    (error) => ({ error: told(error), isProblem: error instanceof ServerProblem }),
  );
  const { runId, run } = following;
  return { done, waits, states, texts, asked, runId, conversation: run.conversationId };
}

const lost = () => new TypeError("Failed to fetch");
const scenes = {
  cut: () =>
    follow([
      stream(BEGIN + say(2, "One ") + say(3, "never whole").slice(0, -1)),
      broken(say(3, "two ")),
      lost(),
      stream(say(3, "two ") + say(4, "three") + END(5)),
    ]),
  backOff: () => follow([...Array.from({ length: 8 }, lost), stream(BEGIN + END(2))]),
  half: () => follow([lost(), lost(), stream(BEGIN + END(2))], { retry: { random: () => 0 } }),
  progress: () =>
    follow([lost(), lost(), stream(BEGIN), lost(), stream(say(2, "x")), stream(END(3))]),
  retryField: () =>
    follow([stream(`${BEGIN}retry: 3000\n: the server ends\n\n`), lost(), stream(END(2))]),
  retryAfter: () =>
    follow([
      problem(429, "too-many", { "retry-after": "7" }),
      problem(503, "store-failure", { "retry-after": new Date(Date.now() + 60_000).toUTCString() }),
      problem(408, "late"),
      new Response("<h1>Bad gateway</h1>", { status: 502, statusText: "Bad Gateway" }),
      stream(BEGIN + END(2)),
    ]),
  forbidden: () => follow([problem(401, "token-needed")]),
  unknown: () => follow([stream(BEGIN), problem(404, "unknown-run")]),
  over: () => follow([stream(BEGIN), new Response(null, { status: 204 })]),
  page: () => follow([stream("<p>Sign in</p>", { "content-type": "text/html" })]),
  nonsense: () => follow([stream("data: {nonsense}\n\n")]),
  async sentTwice() {
    const frames = [];
    const again = [stream(BEGIN + say(2, "One ")), stream(BEGIN + say(2, "One ") + END(3))];
    const seen = await follow(again, { handlers: { onFrame: ({ seq }) => frames.push(seq) } });
    return { ...seen, frames };
  },
  posted: () =>
    follow(
      [
        stream(BEGIN + say(2, "One "), POSTED),
        stream(say(3, "two") + END(4)),
      ],
      { message: "Go" },
    ),
  postedWithoutHeaders: () => follow([stream(BEGIN), stream(END(2))], { message: "Go" }),
  notPosted: () => follow([lost(), stream(BEGIN + END(2))], { message: "Go" }),
  postRefused: () => follow([problem(503, "store-failure"), stream(BEGIN)], { message: "Go" }),
  silence: () =>
    follow([(signal) => endless(BEGIN, signal), stream(END(2))], { retry: { silence: 0.05 } }),
  closed: () =>
    follow([(signal) => endless(BEGIN + say(2, "One ") + say(3, "two"), signal)], {
      begun: (following) => {
        following.run.watched = following;
      },
      handlers: {
        onChange: (run) => {
          if (run.seq === 2) run.watched.close();
        },
      },
    }),
  closedWhileConnecting: () =>
    follow([hanging], {
      begun: (following) => setTimeout(() => following.close(), 10),
    }),
  closedAtOnce: () => follow([stream(BEGIN)], { begun: (following) => following.close() }),
  async closedWhileWaiting() {
    let following;
    const states = [];
    const { fetch, asked } = server([lost()]);
    const onConnection = ({ state }) => {
      states.push(state);
      if (state === "waiting") setTimeout(() => following.close(), 10);
    };
    const client = new Client({ base: "http://nowhere/", fetch, retry: NEVER });
    following = client.follow(RUN, { onConnection });
    await following.done;
    return { states, asked };
  },
  async woken() {
    // What a window has: it says that it is online again.
    const window = new EventTarget();
    globalThis.addEventListener = window.addEventListener.bind(window);
    globalThis.removeEventListener = window.removeEventListener.bind(window);
    const { fetch } = server([lost(), lost(), stream(BEGIN + END(2))]);
    const client = new Client({ base: "http://nowhere/", fetch, retry: NEVER });
    const waking = [() => window.dispatchEvent(new Event("online")), () => following.reconnect()];
    const following = client.follow(RUN, {
      onConnection: ({ state }) => state === "waiting" && setTimeout(waking.shift(), 5),
    });
    const { status } = await following.done;
    delete globalThis.addEventListener;
    delete globalThis.removeEventListener;
    return { status, left: waking.length };
  },
  async throwing() {
    const thrown = [];
    const note = (error) => thrown.push(error.message);
    process.on("uncaughtException", note);
    const seen = await follow([stream(BEGIN + say(2, "One ") + say(3, "two") + END(4))], {
      handlers: {
        onText: (_block, text) => {
          throw new Error(text);
        },
        onDone: () => {
          throw new Error("done");
        },
      },
    });
    await new Promise((resolve) => setTimeout(resolve, 5));
    process.off("uncaughtException", note);
    return { thrown, done: seen.done };
  },
  async dots() {
    const client = new Client({ base: "http://nowhere/agent", fetch: () => process.exit(3) });
    const errors = [];
    for (const id of ["", ".", ".."]) {
      await client.forget(id).catch((error) => errors.push(error.status));
      await client.follow(id).done.catch((error) => errors.push(error.status));
    }
    return { errors };
  },
  async unreachable() {
    const client = new Client({ base: "http://127.0.0.1:9/" });
    const error = await client.start("Go").catch((refusal) => refusal);
    return { isLost: error instanceof ConnectionLost, hasCause: error.cause instanceof Error };
  },
  async cutLog() {
    const event = { type: "turn_started", turn: 1, attempt: 1 };
    const line = `${toJson({ seq: 1, time: 1, event })}\n`;
    const { fetch, asked } = server([new Response(line + line + line.slice(0, 9))]);
    const seqs = [];
    const client = new Client({ base: "http://nowhere/", fetch });
    try {
      for await (const { seq } of client.log("run/é", { after: 7 })) seqs.push(seq);
    } catch (error) {
      return { seqs, error: error.name, asked };
    }
    return { seqs, asked };
  },
  async urls() {
    const { fetch, asked } = server(Array.from({ length: 4 }, () => new Response('{"runs": []}')));
    const client = new Client({ base: "http://nowhere/a/b", fetch, token: "x" });
    await client.runs({ status: "paused", conversation: "a&b=c/é", limit: 3 });
    await client.runs();
    await new Client({ base: "http://nowhere", fetch }).run("a/b?c#d");
    await new Client({ base: new URL("http://nowhere/x/"), fetch }).session();
    return { asked: asked.map((one) => one.asked) };
  },
};

for (const [scene, play] of Object.entries(scenes)) {
  console.log(toJson({ scene, ...(await play()) }));
}
