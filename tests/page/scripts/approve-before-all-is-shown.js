async () => {
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const items = Array.from({ length: 30_000 }, (_, at) => at);
  const given = { items, target: '/etc/passwd' };
  const element = show({ state: 'pending', arguments: given, request: {} });
  const root = element.shadowRoot;
  const named = (name) => [...root.querySelectorAll('.strip button')]
    .find((one) => one.textContent === name);
  while (!named('Approve')) await pause(5);
  const words = new Set();
  const isShown = () => [...root.querySelectorAll('.value')].at(-1)?.textContent
    === '/etc/passwd';
  const early = [];
  while (!isShown()) {
    named('Approve').click();
    words.add(root.querySelector('.said').textContent);
    early.push([named('Approve').ariaDisabled, named('Deny').ariaDisabled]);
    await pause(30);
  }
  return { decided: decided.length, words: [...words], early };
}
