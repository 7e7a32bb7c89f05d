() => {
  const later = window.setTimeout;
  const isOfHidden = (wait) => wait === 30_000 || wait === 15_000;
  window.setTimeout = (work, wait, ...more) => later(work, isOfHidden(wait) ? 50 : wait, ...more);
  Object.defineProperty(document, "hidden", { configurable: true, get: () => window.isHidden });
  window.hide = (isHidden) => {
    window.isHidden = isHidden;
    document.dispatchEvent(new Event("visibilitychange"));
  };
  window.isHidden = false;
}
