// A button of the card. While it can do nothing it is `aria-disabled` and not `disabled`: it keeps
// the focus, is still found, and can say why.

import { make } from "./dom.js";

/**
 * Make one.
 * @param {string} text
 * @param {string} looks class names
 * @param {() => void} press
 */
export function button(text, looks, press) {
  const element = make("button", { type: "button", class: `act ${looks}`.trim(), text });
  element.addEventListener("click", () => {
    if (element.ariaDisabled !== "true") press();
  });
  return element;
}
