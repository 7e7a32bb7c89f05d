// Has the published clients read recorded streams: a file with a JSON list of
// {version, messages, streams: [text, …]}. One agent reads the streams of an entry, one after the
// other. Prints for each entry the state of the agent, and its warnings.
import { readFileSync } from "node:fs";

process.env.SUPPRESS_TRANSFORMATION_WARNINGS = "";
const clients = { "1.0": await import("agui1"), "0.0.59": await import("agui0") };

// What a client warns of, it did not understand.
const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));
console.error = () => {};

async function read({ version, messages, streams }) {
  const { HttpAgent } = clients[version];
  const bodies = [...streams];
  const agent = new HttpAgent({
    url: "http://nowhere",
    threadId: "thread",
    initialMessages: messages,
    fetch: async () =>
      new Response(bodies.shift(), { headers: { "content-type": "text/event-stream" } }),
  });
  const customs = [];
  const seen = [];
  const ends = [];
  let error = null;
  let pending = null; // the calls that the client is left to run; known to 1.0 only
  const subscriber = {
    onEvent: ({ event }) => {
      if (event.type === "CUSTOM") customs.push(event);
      else seen.push(event.type);
    },
    onRunFinishedEvent: ({ event, pendingToolCallIds }) => {
      ends.push(event);
      pending = pendingToolCallIds ?? null;
    },
    onRunErrorEvent: ({ event }) => void ends.push(event),
  };
  for (const _ of streams) {
    const resume = agent.pendingInterrupts.map(({ id }) => ({
      interruptId: id,
      status: "cancelled",
    }));
    try {
      await agent.runAgent(resume.length ? { resume } : {}, subscriber);
    } catch (failure) {
      error = String(failure);
      break;
    }
  }
  const state = { messages: agent.messages, customs, seen, ends, error, pending };
  return { ...state, interrupts: agent.pendingInterrupts, warnings: warnings.splice(0) };
}

// For readers to whom more than a line feed ends a line.
const asciiJson = (value) =>
  JSON.stringify(value).replace(
    /[\u007f-\uffff]/g,
    (character) => "\\u" + character.charCodeAt(0).toString(16).padStart(4, "0"),
  );

for (const entry of JSON.parse(readFileSync(process.argv[2], "utf8"))) {
  console.log(asciiJson(await read(entry)));
}
