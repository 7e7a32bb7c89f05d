/**
 * What stands where nothing was said yet: what this is, and what one could say.
 */

import { make } from "../tool-call/dom.js";

const EXAMPLES = [
  "Plan a picnic for six people",
  "Write a program that finds prime numbers",
  "Count the words of this sentence",
];

/** @param {(message: string) => void} onExample */
export function welcome(onExample) {
  const examples = EXAMPLES.map((words) => {
    const button = make("button", { class: "example", type: "button", text: words });
    button.addEventListener("click", () => onExample(words));
    return make("li", {}, button);
  });
  return make(
    "div",
    { class: "welcome" },
    make("h2", { text: "What shall we do?" }),
    make("p", {
      text:
        "You see every call of the agent while it is still being written, and what needs your " +
        "word waits for it: approve it, change it, or say no.",
    }),
    make("ul", { class: "examples" }, ...examples),
  );
}
