// Scenes of a chat, played by the published clients: `node ai_sdk.mjs URL VERSION`.
// Each prints one line: {scene, ...what a front end has by then}.

import net from "node:net";

const [base, version] = process.argv.slice(2);
const { Chat } = await import(`react${version}`);
const {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  safeValidateUIMessages,
} = await import(`ai${version}`);

/** A chat as a front end has it, which keeps what it was told. */
class Told {
  requests = [];
  finished = [];

  constructor(id, { address = base, automatic = true, messages = [] } = {}) {
    this.chat = new Chat({
      id,
      messages,
      transport: new DefaultChatTransport({
        api: `${address}/api/chat`,
        fetch: (url, options) => {
          this.requests.push(options.method);
          return fetch(url, options);
        },
      }),
      sendAutomaticallyWhen: automatic
        ? lastAssistantMessageIsCompleteWithApprovalResponses
        : undefined,
      onFinish: ({ finishReason, isAbort, isDisconnect, isError }) =>
        this.finished.push({ finishReason, isAbort, isDisconnect, isError }),
      onError: () => {},
    });
    this.chat["~registerMessagesCallback"](() => this.look());
  }

  look() {}

  say(text) {
    return this.chat.sendMessage({ text });
  }

  get last() {
    return this.chat.messages.findLast((message) => message.role === "assistant");
  }

  calls() {
    return (this.last?.parts ?? []).filter((part) => part.type === "dynamic-tool");
  }

  text() {
    const texts = (this.last?.parts ?? []).filter((part) => part.type === "text");
    return texts.map((part) => part.text).join("");
  }

  answer(id, approved, more = {}) {
    return this.chat.addToolApprovalResponse({ id, approved, ...more });
  }

  asked() {
    return this.calls().filter((part) => part.state === "approval-requested");
  }

  told() {
    const { status, messages, error } = this.chat;
    const { requests, finished } = this;
    const now = { status, messages, error: error?.message, text: this.text() };
    return { ...now, requests: [...requests], finished: [...finished] };
  }
}

async function until(look, what) {
  const deadline = Date.now() + 40_000;
  while (!look()) {
    if (Date.now() > deadline) throw new Error(`it does not come: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

const stop = (id) =>
  fetch(`${base}/api/chat/${encodeURIComponent(id)}/stop`, {
    method: "POST",
    headers: { "content-type": "application/json" },
  });

const resumed = async (id) => {
  const answer = await fetch(`${base}/api/chat/${encodeURIComponent(id)}/stream`);
  await answer.text();
  return answer;
};

/** What a page that is loaded anew is given; both versions must take it. */
async function shown(id) {
  const answer = await fetch(`${base}/api/chat/${encodeURIComponent(id)}`);
  const { messages, run } = await answer.json();
  if (messages.length) {
    const checked = await safeValidateUIMessages({ messages: structuredClone(messages) });
    if (!checked.success) throw checked.error;
  }
  return { messages, run };
}

/** Let an answer go on that waits for this. */
const goOn = (name) => new Told(`go on with ${name}`).say(`go on with ${name}`);

const over = (told, finished) =>
  until(
    () => told.finished.length >= finished && ["ready", "error"].includes(told.chat.status),
    `the end of ${finished} answers`,
  );

/** A way to the server that can be broken. */
async function fragile() {
  const { hostname, port } = new URL(base);
  const open = new Set();
  const server = net.createServer((client) => {
    const upstream = net.connect(Number(port), hostname);
    for (const [one, other] of [[client, upstream], [upstream, client]]) {
      open.add(one);
      one.pipe(other);
      one.on("error", () => other.destroy());
      one.on("close", () => open.delete(one));
    }
  });
  await new Promise((resolve) => server.listen(0, hostname, resolve));
  return {
    address: `http://${hostname}:${server.address().port}`,
    breaks: () => open.forEach((socket) => socket.resetAndDestroy()),
    close: () => server.close(),
  };
}

/** Ask for much, over a way that breaks when a little of it has come. */
async function cutOff(id) {
  const way = await fragile();
  const told = new Told(id, { address: way.address });
  told.look = () => {
    if (told.text().length > 10) {
      told.look = () => {};
      way.breaks();
    }
  };
  await told.say(`speak at length, and wait for ${id}`);
  return [told, way];
}

const scenes = {
  async text() {
    const told = new Told("text");
    await told.say("hello");
    return told.told();
  },

  async approval() {
    const told = new Told("approval");
    await told.say("send to ada");
    const paused = told.told();
    await told.answer(told.asked()[0].approval.id, true);
    await over(told, 2);
    return { paused, ...told.told() };
  },

  async denial() {
    const told = new Told("denial");
    await told.say("send to ada");
    await told.answer(told.asked()[0].approval.id, false, { reason: "not to her" });
    await over(told, 2);
    return told.told();
  },

  async two_approvals() {
    const told = new Told("two");
    await told.say("send to ada and eve");
    const [ada, eve] = told.asked();
    await told.answer(ada.approval.id, true);
    const requests = told.requests.length;
    await told.answer(eve.approval.id, false);
    await over(told, 2);
    return { requests_before: requests, ...told.told() };
  },

  async one_of_two() {
    const told = new Told("one of two", { automatic: false });
    await told.say("send to ada and eve");
    const [ada, eve] = told.asked();
    await told.answer(ada.approval.id, true);
    await told.chat.sendMessage();
    const between = told.calls().map((part) => part.state);
    await told.answer(eve.approval.id, true);
    await told.chat.sendMessage();
    return { between, ...told.told() };
  },

  async edit() {
    const told = new Told("edit");
    await told.say("send to ada");
    const id = told.asked()[0].approval.id;
    await told.answer(id, true, { options: { body: { edits: { [id]: { to: "grace" } } } } });
    await over(told, 2);
    return told.told();
  },

  async wrong_edit() {
    const told = new Told("wrong edit");
    await told.say("send to ada");
    const id = told.asked()[0].approval.id;
    await told.answer(id, true, { options: { body: { edits: { [id]: { to: 7 } } } } });
    await over(told, 2);
    return told.told();
  },

  async invalid() {
    const told = new Told("invalid");
    await told.say("send to nobody");
    return told.told();
  },

  async odd_keys() {
    const told = new Told("odd keys");
    await told.say("keep odd keys");
    return told.told();
  },

  async growing() {
    const told = new Told("growing");
    const lengths = new Set();
    told.look = () => {
      const [call] = told.calls();
      if (call?.state === "input-streaming") lengths.add(call.input?.content?.length ?? 0);
    };
    await told.say("write much");
    return { lengths: [...lengths], ...told.told() };
  },

  async failure() {
    const told = new Told("failure");
    await told.say("fail");
    return told.told();
  },

  async two_turns() {
    const told = new Told("turns");
    await told.say("hello");
    await told.say("count");
    const { messages, text } = told.told();
    return { roles: messages.map((message) => message.role), text, ids: messages.map((m) => m.id) };
  },

  async regenerate() {
    const told = new Told("regenerate");
    await told.say("hello");
    await told.say("count");
    const first = told.text();
    await told.chat.regenerate();
    const second = told.text();
    const [question] = told.chat.messages;
    await told.chat.sendMessage({ text: "count", messageId: question.id });
    return { first, second, third: told.text(), messages: told.chat.messages.length };
  },

  async cut() {
    const [told, way] = await cutOff("cut");
    const broken = told.told();
    await Promise.all([told.chat.resumeStream(), goOn("cut")]);
    way.close();
    return { broken, ...told.told() };
  },

  async cut_until_it_was_over() {
    const [told, way] = await cutOff("cut for long");
    await goOn("cut for long");
    while ((await resumed("cut for long")).status !== 204);
    await told.chat.resumeStream();
    const without = told.told();
    told.chat.transport.prepareReconnectToStreamRequest = ({ api, id }) => ({
      api: `${api}/${encodeURIComponent(id)}/stream?ended=true`,
    });
    await told.chat.resumeStream();
    way.close();
    return { without, ...told.told() };
  },

  async reload() {
    const id = "re/load?"; // which is in the path of what a client asks for
    const before = new Told(id);
    await before.say("send to ada");
    const told = new Told(id);
    await told.chat.resumeStream();
    const paused = told.told();
    await told.answer(told.asked()[0].approval.id, true);
    await over(told, 2);
    const again = new Told(id);
    await again.chat.resumeStream();
    return { paused, nothing: again.told(), ...told.told() };
  },

  async reload_when_over() {
    const id = "over/reload?";
    const before = new Told(id);
    for (const text of ["hello", "send to nobody", "keep odd keys", "fail"]) await before.say(text);
    for (const approved of [true, false]) {
      await before.say("send to ada");
      const finished = before.finished.length;
      await before.answer(before.asked()[0].approval.id, approved, { reason: "so it is" });
      await over(before, finished + 1);
    }
    await before.say("count");
    await before.chat.regenerate();
    const first = await shown(id);
    const told = new Told(id, { messages: structuredClone(first.messages) });
    await told.chat.resumeStream();
    const reloaded = told.told();
    await told.say("count");
    const last = await shown(id);
    return { before: before.told(), first, reloaded, last, ...told.told() };
  },

  async reload_while_asked() {
    const before = new Told("reload asked");
    await before.say("hello");
    await before.say("send to ada and eve");
    const first = await shown("reload asked");
    const told = new Told("reload asked", { messages: structuredClone(first.messages) });
    await told.chat.resumeStream();
    const paused = told.told();
    for (const { approval } of told.asked()) await told.answer(approval.id, true);
    await over(told, 2);
    const decided = told.told();
    await told.say("count");
    return { before: before.told(), first, paused, decided, ...told.told() };
  },

  async reload_while_it_speaks() {
    const id = "reload speaking";
    const before = new Told(id);
    await before.say("hello");
    before.say("keep a speech, and wait for reload");
    await until(() => before.text().length > 40, "some text");
    const first = await shown(id);
    const told = new Told(id, { messages: structuredClone(first.messages) });
    await Promise.all([told.chat.resumeStream(), goOn("reload")]);
    const resumed = told.told();
    await over(before, 2);
    await told.say("count");
    return { before: before.told(), first, resumed, ...told.told() };
  },

  async reload_while_it_writes() {
    const before = new Told("reload writing");
    before.say("write much, and wait for writing");
    await until(() => before.calls()[0]?.input?.content?.length, "some input");
    const first = await shown("reload writing");
    const told = new Told("reload writing", { messages: structuredClone(first.messages) });
    await Promise.all([told.chat.resumeStream(), goOn("writing")]);
    return { first, ...told.told() };
  },

  async reload_nothing() {
    return shown("nobody has said anything here");
  },

  async said_while_asked() {
    const told = new Told("said while asked");
    await told.say("send to ada");
    await told.say("count");
    const refused = told.told();
    await told.answer(told.asked()[0].approval.id, true);
    await told.chat.sendMessage();
    const answered = told.told();
    await told.chat.regenerate();
    return { refused, answered, ...told.told() };
  },

  async said_while_asked_and_taken_back() {
    const told = new Told("taken back");
    await told.say("send to ada");
    await told.say("count");
    told.chat.messages = told.chat.messages.slice(0, -1);
    told.chat.clearError();
    await told.answer(told.asked()[0].approval.id, true);
    await over(told, 3);
    return told.told();
  },

  async stop_and_say() {
    const told = new Told("stop and say");
    await told.say("send to ada");
    await told.chat.stop();
    await stop("stop and say");
    told.chat.messages = (await shown("stop and say")).messages;
    const stopped = told.told();
    await told.say("count");
    return { stopped, ...told.told() };
  },

  async answered_elsewhere() {
    const [one, other] = [new Told("elsewhere"), new Told("elsewhere", { automatic: false })];
    await one.say("send to ada");
    await other.chat.resumeStream();
    await one.answer(one.asked()[0].approval.id, true);
    await over(one, 2);
    await other.answer(other.asked()[0].approval.id, true);
    await other.chat.sendMessage();
    return { status: other.chat.status, error: other.chat.error?.message };
  },

  async leave() {
    const told = new Told("leave");
    told.say("speak at length, and wait for leave");
    await until(() => told.text().length > 10, "some text");
    await told.chat.stop();
    const left = told.told();
    await Promise.all([told.chat.resumeStream(), goOn("leave")]);
    return { left, ...told.told() };
  },

  async stop() {
    const told = new Told("stop");
    const answer = told.say("write very much");
    await until(() => told.calls()[0]?.state === "input-streaming", "a call");
    const stopped = await stop("stop");
    await answer;
    const again = await stop("stop");
    return { statuses: [stopped.status, again.status], ...told.told() };
  },

  async stop_while_asked() {
    const told = new Told("stop asked");
    await told.say("send to ada");
    await stop("stop asked");
    await told.answer(told.asked()[0].approval.id, true);
    await over(told, 2);
    return told.told();
  },
};

const escaped = (character) =>
  "\\u" + character.charCodeAt(0).toString(16).padStart(4, "0"); // it ends lines for some readers

const late = () =>
  new Promise((_, reject) => setTimeout(() => reject(new Error("it does not end")), 45_000));

await Promise.all(
  Object.entries(scenes).map(async ([scene, play]) => {
    const seen = await Promise.race([play(), late()]).catch((error) => ({ failed: error.stack }));
    console.log(JSON.stringify({ scene, ...seen }).replace(/[\u0085\u2028\u2029]/g, escaped));
  }),
);
process.exit(0);
