// Letters that run from the right, inside of lines that run from the left. A browser would let them
// carry along the numbers and signs behind them, so that "1 > 2" is seen as "2 < 1". Here each run
// of such letters, with the spaces between them, is an island, and all else keeps its order.

// What runs from the right by itself, or carries its neighbours along as numbers of Arabic do.
const RIGHT = "\\u0590-\\u08ff\\ufb1d-\\ufdff\\ufe70-\\ufefe"
  + "\\u{10800}-\\u{10fff}\\u{1e800}-\\u{1efff}";
const NUMBERS = "\\u0600-\\u0605\\u0660-\\u0669\\u066b\\u066c\\u06dd\\u06f0-\\u06f9\\u0890\\u0891"
  + "\\u08e2\\u{10d30}-\\u{10d39}\\u{10d40}-\\u{10d49}\\u{10e60}-\\u{10e7e}";
const LETTER = `(?:(?![${NUMBERS}])[${RIGHT}])`;

const some = new RegExp(`[${RIGHT}]`, "u");
const runs = new RegExp(
  `([${NUMBERS}]\\p{M}*)+|${LETTER}(?:${LETTER}|\\p{M}|[ ]+(?=${LETTER}))*`, "gu",
);

/**
 * Give a text, which is visible already, as what can be appended to an element.
 * @param {string} text
 * @returns {(string | Node)[]}
 */
export function inOrder(text) {
  if (!some.test(text)) return [text];
  const parts = [];
  let at = 0;
  for (const { 0: run, index } of text.matchAll(runs)) {
    if (index > at) parts.push(text.slice(at, index));
    parts.push(island(run));
    at = index + run.length;
  }
  if (at < text.length) parts.push(text.slice(at));
  return parts;
}

/**
 * Give a text, which is visible already, as one node.
 * @param {string} text
 * @returns {Node}
 */
export function inOneNode(text) {
  if (!some.test(text)) return document.createTextNode(text);
  const whole = document.createElement("span");
  addInOrder(whole, text);
  return whole;
}

/**
 * Append a text, which is visible already.
 * @param {Element} element
 * @param {string} text
 */
export function addInOrder(element, text) {
  for (const part of inOrder(text)) element.append(part);
}

/** @param {string} run */
function island(run) {
  const element = document.createElement("span");
  element.className = "from-right";
  element.append(run);
  return element;
}
