() => {
  window.shifted = [];
  new PerformanceObserver((list) => {
    for (const { hadRecentInput, sources, value } of list.getEntries()) {
      const names = sources.map(({ node }) => `${node?.className ?? ""} ${node?.nodeName}`);
      if (!hadRecentInput) window.shifted.push([value, ...names]);
    }
  }).observe({ type: "layout-shift", buffered: true });
}
