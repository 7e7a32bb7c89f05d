async () => {
  const kept = show({state: 'running', name: 'kept'}, {open: false});
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const text = () => kept.shadowRoot.querySelector('.time').textContent;
  await pause(300);
  kept.remove();
  const gone = text();
  await pause(300);
  const still = text();
  document.querySelector('main').append(kept);
  await pause(300);
  return [gone, still, text()];
}
