() => {
  performance.mark("begin");
  const box = document.body.appendChild(document.createElement("div"));
  box.style.contain = "strict"; // the rest of the page does not matter
  for (let at = 0; at < 1000; at += 1) {
    const line = document.createElement("p");
    line.textContent = `line ${at} of a text`;
    box.append(line);
  }
  box.getBoundingClientRect();
  box.remove();
}
