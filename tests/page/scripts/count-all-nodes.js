() => {
  const count = (root) => [...root.childNodes].reduce(
    (sum, one) => sum + 1 + count(one) + (one.shadowRoot ? count(one.shadowRoot) : 0), 0);
  return count(document);
}
