async () => {
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const begun = performance.now();
  const element = show({ state: 'pending', arguments: { a: 1 }, request: {} });
  const named = (name) => [...element.shadowRoot.querySelectorAll('.strip button')]
    .find((one) => one.textContent === name);
  while (!named('Approve')) await pause(5);
  const { width } = named('Approve').getBoundingClientRect();
  const seen = [named('Approve').ariaDisabled, named('Deny').ariaDisabled];
  while (performance.now() - begun < 300) {
    named('Approve').click();
    await pause(10);
  }
  while (named('Approve').ariaDisabled) await pause(5);
  const isEqual = named('Approve').getBoundingClientRect().width === width;
  return { seen, decided: decided.length, took: performance.now() - begun, isEqual };
}
