() => {
  let element = document.activeElement;
  while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
  if (element === document.body) return ["", true]; // the browser's own bars have it
  const name = element?.ariaLabel || element?.innerText || element?.labels?.[0]?.innerText || "";
  let isSeen = false;
  for (let at = element; at && !isSeen; at = at.parentElement) {
    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(at);
    isSeen = boxShadow !== "none" || (outlineStyle !== "none" && parseFloat(outlineWidth) >= 1.5);
  }
  return [name.trim(), isSeen];
}
