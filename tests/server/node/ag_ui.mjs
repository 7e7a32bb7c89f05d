// Plays scenes with a published AG-UI client: node ag_ui.mjs URL VERSION, where the server at URL
// has the agent of chat_scenes.py. Prints what was seen of each scene: one JSON a line.
const [base, version] = process.argv.slice(2);
const { HttpAgent, runHttpRequest, transformHttpEventStream } = await import(
  { "1.0": "agui1", "0.0.59": "agui0" }[version]
);
const url = `${base}/api/ag-ui`;
const json = { "content-type": "application/json" };
const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));
console.error = () => {};
// When a connection dies, 1.0 cancels its reader as well, and does not expect to be told why again.
process.on("unhandledRejection", () => {});

class Agent extends HttpAgent {
  connect(input) {
    const stream = `${this.url}/${encodeURIComponent(input.threadId)}/stream?version=${version}`;
    return transformHttpEventStream(runHttpRequest(() => fetch(stream)));
  }
}

// What is seen of a run: its events, in order, without those that repeat.
function watching(seen, whenever = () => {}) {
  const note = (event) => {
    if (seen.at(-1) !== event.type) seen.push(event.type);
    whenever(event);
  };
  return { onEvent: ({ event }) => note(event) };
}

const say = (agent, content) =>
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content });

async function run(agent, parameters = {}, whenever = undefined) {
  const events = [];
  let last;
  const noted = (event) => {
    last = event;
    whenever?.(event);
  };
  let failure = null;
  try {
    await agent.runAgent(parameters, watching(events, noted));
  } catch (error) {
    failure = String(error.message ?? error);
  }
  const plain = agent.messages.map(({ id, ...rest }) => rest);
  return { events, last, failure, messages: plain, interrupts: agent.pendingInterrupts };
}

const resolved = (agent, payload) => ({
  resume: agent.pendingInterrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload })),
});

async function asked(question, payload) {
  const agent = new Agent({ url });
  say(agent, question);
  const first = await run(agent);
  return { first, second: await run(agent, resolved(agent, payload)) };
}

// A connection that dies after so many events.
function dying(agent, events) {
  const real = agent.fetch;
  agent.fetch = async (...request) => {
    agent.fetch = real;
    const response = await real(...request);
    const reader = response.body.getReader();
    let left = events;
    const body = new ReadableStream({
      async pull(controller) {
        const { value, done } = await reader.read();
        if (done) return controller.close();
        left -= new TextDecoder().decode(value).split("\n\n").length - 1;
        controller.enqueue(value);
        if (left <= 0) {
          await reader.cancel();
          controller.error(new Error("the connection is gone"));
        }
      },
    });
    return new Response(body, { headers: response.headers });
  };
}

const scenes = {
  hello: async () => {
    const agent = new Agent({ url });
    say(agent, "hello");
    return run(agent);
  },
  approve: () => asked("send to ada", { approved: true }),
  edit: () => asked("send to ada", { approved: true, editedArgs: { to: "grace" } }),
  deny: () => asked("send to ada", { approved: false, reason: "not today" }),
  wrong: () => asked("send to ada", { approved: "perhaps" }),
  unfit: () => asked("send to ada", { approved: true, editedArgs: { to: 7 } }),
  invalid: async () => {
    const agent = new Agent({ url });
    say(agent, "send to nobody");
    const customs = [];
    const seen = await run(agent, {}, (event) => event.type === "CUSTOM" && customs.push(event));
    return { ...seen, customs };
  },
  error: async () => {
    const agent = new Agent({ url });
    say(agent, "what nobody knows");
    return run(agent);
  },
  talk: async () => {
    const agent = new Agent({ url });
    say(agent, "hello");
    await run(agent);
    say(agent, "count");
    return run(agent);
  },
  cut: async () => {
    const agent = new Agent({ url });
    say(agent, "speak at length");
    dying(agent, 8);
    return { first: await run(agent), second: await run(agent) };
  },
  cutWhileWriting: async () => {
    const agent = new Agent({ url });
    say(agent, "write much");
    dying(agent, 6);
    return { first: await run(agent), second: await run(agent) };
  },
  // To leave is not to stop.
  leave: async () => {
    const agent = new Agent({ url });
    say(agent, "speak at length");
    const leave = (event) => event.type === "TEXT_MESSAGE_CONTENT" && agent.abortRun();
    return { first: await run(agent, {}, leave), second: await run(agent) };
  },
  stop: async () => {
    const agent = new Agent({ url });
    say(agent, "speak at length");
    const stop = (event) =>
      event.type === "TEXT_MESSAGE_START" &&
      fetch(`${url}/${agent.threadId}/stop`, { method: "POST", headers: json });
    return run(agent, {}, stop);
  },
  // Another page of the same user: it is given what was said, and what is asked.
  reload: async () => {
    const before = new Agent({ url });
    say(before, "send to ada");
    const first = await run(before);
    const agent = new Agent({ url, threadId: before.threadId });
    await agent.connectAgent();
    const messages = agent.messages.map(({ id, ...rest }) => rest);
    const second = await run(agent, resolved(agent, { approved: true }));
    // The first page does not know that it was decided: to cancel is its way on.
    const cancelled = before.pendingInterrupts.map(({ id }) => ({
      interruptId: id,
      status: "cancelled",
    }));
    const late = await run(before, resolved(before, { approved: false }));
    const way = await run(before, { resume: cancelled });
    return { first, messages, second, late, way };
  },
  busy: async () => {
    const agent = new Agent({ url });
    say(agent, "send to ada");
    await run(agent);
    const other = new Agent({ url, threadId: agent.threadId });
    say(other, "hello");
    return run(other);
  },
};

// For readers to whom more than a line feed ends a line.
const asciiJson = (value) =>
  JSON.stringify(value).replace(
    /[\u007f-\uffff]/g,
    (character) => "\\u" + character.charCodeAt(0).toString(16).padStart(4, "0"),
  );

await Promise.all(
  Object.entries(scenes).map(async ([scene, play]) =>
    console.log(asciiJson({ scene, seen: await play(), warnings })),
  ),
);
