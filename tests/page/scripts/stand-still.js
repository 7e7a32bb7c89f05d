(button) => new Promise((resolve) => {
  let last = "", since = 0;
  const end = performance.now() + 10_000; // then the click fails
  const look = (now) => {
    const { x, y, width, height } = button.getBoundingClientRect();
    const place = [x, y, width, height].join();
    if (place !== last) { last = place; since = now; }
    const isReady = now - since > 400 && !button.ariaDisabled;
    if (isReady || now > end) resolve(); else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})
