async () => {
  const count = (root) => {
    let sum = 0;
    for (const element of root.querySelectorAll("*")) {
      sum += element.shadowRoot ? 1 + count(element.shadowRoot) : 1;
    }
    return sum;
  };
  for (let before = -1, now = 0, same = 0; same < 4; before = now) {
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    now = count(document);
    same = now === before ? same + 1 : 0;
  }
}
