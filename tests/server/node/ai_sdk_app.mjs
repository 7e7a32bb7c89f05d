// A page of docs/front-ends.md, played by the published clients: `node ai_sdk_app.mjs URL`.
// It says where it wants to go, runs the calls of the model, and prints for each version one line:
// the chat as it is in the end.

const [base] = process.argv.slice(2);

for (const version of ["6", "7"]) {
  const { Chat } = await import(`react${version}`);
  const { DefaultChatTransport, lastAssistantMessageIsCompleteWithToolCalls } = await import(
    `ai${version}`
  );
  const ran = [];
  const finished = [];
  let done;
  const over = new Promise((resolve) => (done = resolve));
  const chat = new Chat({
    transport: new DefaultChatTransport({ api: `${base}/api/chat` }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
    onToolCall: ({ toolCall: { toolName, toolCallId, input } }) => {
      ran.push(input);
      chat.addToolOutput({ tool: toolName, toolCallId, output: { at: [52.5, 13.4] } });
    },
    onFinish: ({ finishReason, isError }) => {
      finished.push(isError ? "error" : finishReason);
      if (finishReason !== "tool-calls") done();
    },
  });
  await chat.sendMessage({ text: "To Berlin" });
  await over;
  const { messages, status, error } = chat;
  console.log(JSON.stringify({ messages, status, error: error?.message, ran, finished }));
}
