() => {
  window.heard = [];
  const region = document.querySelector('[role="status"]');
  new MutationObserver(() => {
    const text = region.textContent.trim();
    if (text !== "" && window.heard.at(-1) !== text) window.heard.push(text);
  }).observe(region, { childList: true, characterData: true, subtree: true });
}
