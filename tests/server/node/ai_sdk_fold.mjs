// What the published clients make of streams: `node ai_sdk_fold.mjs FILE`.
// FILE holds a list of messages, each a list of streams, one going on after the other. Prints for
// each version one line: the messages, as they are at the end.

import { readFileSync } from "node:fs";

const messages = JSON.parse(readFileSync(process.argv[2], "utf8"));

for (const version of ["6", "7"]) {
  const { DefaultChatTransport, readUIMessageStream } = await import(`ai${version}`);
  const transport = new DefaultChatTransport();

  const fold = async (streams) => {
    let message;
    for (const text of streams) {
      const stream = transport.processResponseStream(new Blob([text]).stream());
      const faults = [];
      const states = readUIMessageStream({
        message,
        stream,
        onError: (fault) => faults.push(fault),
      });
      for await (const state of states) message = state;
      for (const { message: text } of faults) {
        if (!/ \((max_turns|truncated)\)$/.test(text)) throw new Error(text); // of failed runs
      }
    }
    return message;
  };

  console.log(JSON.stringify(await Promise.all(messages.map(fold))));
}
