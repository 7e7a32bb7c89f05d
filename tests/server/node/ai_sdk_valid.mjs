// What the published clients think of messages: `node ai_sdk_valid.mjs FILE`.
// FILE holds a list of chats, each a list of messages. Prints for each version one line: the chats
// as they were read, and what is wrong with them, if anything is.

import { readFileSync } from "node:fs";

const chats = JSON.parse(readFileSync(process.argv[2], "utf8"));

for (const version of ["6", "7"]) {
  const { safeValidateUIMessages } = await import(`ai${version}`);
  const faults = [];
  for (const messages of chats) {
    const { success, error } = await safeValidateUIMessages({ messages });
    if (!success) faults.push(error.message);
  }
  console.log(JSON.stringify({ chats, faults }));
}
