() => {
  let sum = 0;
  const walk = (node) => {
    for (const child of node.childNodes) {
      sum += 1;
      if (child.shadowRoot) walk(child.shadowRoot);
      walk(child);
    }
  };
  walk(document);
  return sum;
}
