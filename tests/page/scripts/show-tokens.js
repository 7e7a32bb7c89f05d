async ([input_tokens, output_tokens]) => {
  const { src } = document.querySelector("script");
  const { RunFooter } = await import(new URL("conversation.js", src).href);
  const bar = new RunFooter({ status: "completed", created: 0 }, {});
  const usage = { input_tokens, output_tokens };
  bar.show({ status: "completed", usage, breaks: [], startedAt: 0, endedAt: 1, time: 1 });
  const tokens = bar.element.querySelector(".run-tokens");
  return [tokens.textContent, tokens.title];
}
