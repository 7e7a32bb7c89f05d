() => {
  const lines = (count, word) => Array.from({ length: count }, (_, i) => word(i));
  const cases = [
    [lines(5000, (i) => `a${i}`), lines(5000, (i) => `b${i}`)],
    [lines(5000, (i) => `${i % 7}`), lines(5000, (i) => `${i % 11}`)],
    [lines(5000, (i) => `a${i}`), lines(5000, (i) => (i % 3 ? `a${i}` : `b${i}`))],
    [lines(5000, (i) => `a${i}`), lines(5000, (i) => `a${4999 - i}`)],
    [lines(150_000, (i) => `a${i}`), ["x", ...lines(150_000, (i) => `a${i}`), "y"]],
  ];
  return cases.map(([before, after]) => {
    const begun = performance.now();
    const { changes, isRough } = lineDiff(before, after);
    const took = performance.now() - begun;
    const twice = lineDiff(before, after).changes;
    const again = JSON.stringify(twice) === JSON.stringify(changes);
    const side = (other) => changes.filter((c) => c.kind !== other).map((c) => c.text);
    const isRight = side("added").join() === before.join()
      && side("removed").join() === after.join();
    const same = changes.filter((c) => c.kind === "same").length;
    return { took, isRight, again, same, isRough };
  });
}
