// What is copied out of a text in rows is the text: a line that goes on in a further row stays one
// line. A browser would put a newline between any two rows.

/**
 * Let a view give its rows to the clipboard as the text that they are.
 * @param {HTMLElement} element
 */
export function copyAsText(element) {
  element.addEventListener("copy", (event) => {
    const range = selectedRange(element);
    if (range === null || event.clipboardData === null) return; // the browser's own way
    event.clipboardData.setData("text/plain", range.cloneContents().textContent ?? "");
    event.preventDefault();
  });
}

/**
 * Give what is selected, if all of it is in an element.
 * @param {HTMLElement} element
 */
function selectedRange(element) {
  // Chromium keeps a selection in a shadow root from all others; elsewhere there is one for all.
  const root = /** @type {{ getSelection?: () => Selection | null }} */ (element.getRootNode());
  const selection = root.getSelection?.() ?? document.getSelection();
  if (!selection || selection.isCollapsed || selection.rangeCount !== 1) return null;
  const range = selection.getRangeAt(0);
  return element.contains(range.commonAncestorContainer) ? range : null;
}
