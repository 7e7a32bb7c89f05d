() => [...shadow.querySelectorAll(".key, .value, .row")].map((element) => {
  const places = [];
  const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    for (let at = 0; at < node.length; at += 1) {
      if (!/[\d<>;/]|[\u0661\u0662]/.test(node.data[at])) continue;
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + 1);
      places.push(range.getBoundingClientRect().x);
    }
  }
  return { text: element.textContent, places };
}).filter(({ text }) => text.includes("300"))
