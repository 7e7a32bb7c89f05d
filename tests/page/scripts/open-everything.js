() => {
  const found = (selector) => {
    const all = [];
    const walk = (root) => {
      all.push(...root.querySelectorAll(selector));
      for (const element of root.querySelectorAll("*")) {
        if (element.shadowRoot) walk(element.shadowRoot);
      }
    };
    walk(document);
    return all;
  };
  const closed = found("main details, tool-call").filter((one) => !one.open);
  for (const one of closed) one.open = true;
  // The buttons of a card replace each other, so each is clicked once. "Show more" is clicked until
  // there is no more.
  const pressed = (globalThis.pressed ??= new WeakSet());
  const waiting = found("button").filter((button) =>
    !button.hidden && !pressed.has(button) && /^Show/.test(button.textContent.trim()));
  for (const button of waiting) {
    if (button.closest(".strip")) pressed.add(button);
    button.click();
  }
  return closed.length + waiting.length;
}
