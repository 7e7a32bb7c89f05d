// A key that is given twice in one object of a JSON text. `JSON.parse` takes the last one and says
// nothing, so what is read would not be all that is seen.

const BETWEEN = /[\s,:]+/y;
const OTHER = /[^\s,:"{}[\]]+/y; // numbers, true, false, null

/**
 * Find the first key that its object has already, or null. Each character is looked at once.
 * @param {string} text valid JSON
 * @returns {string | null}
 */
export function repeatedKey(text) {
  /** @type {(Set<string> | null)[]} the keys of the objects around; null for an array */
  const around = [];
  let isKey = false;
  for (let at = 0; at < text.length; ) {
    const character = text[at];
    if (character === "{" || character === "[") {
      around.push(character === "{" ? new Set() : null);
      isKey = character === "{";
      at += 1;
    } else if (character === "}" || character === "]") {
      around.pop();
      at += 1;
    } else if (character === '"') {
      const end = stringEnd(text, at);
      const keys = around.at(-1);
      if (isKey && keys) {
        /** @type {string} */
        const key = JSON.parse(text.slice(at, end)); // "\u0061" is "a"
        if (keys.has(key)) return key;
        keys.add(key);
      }
      isKey = false;
      at = end;
    } else {
      const between = token(BETWEEN, text, at);
      if (between.includes(",")) isKey = Boolean(around.at(-1));
      at += (between || token(OTHER, text, at)).length;
    }
  }
  return null;
}

/**
 * @param {RegExp} pattern a sticky one
 * @param {string} text
 * @param {number} at
 */
function token(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0] ?? "";
}

/**
 * Give the place behind a string.
 * @param {string} text
 * @param {number} at where it begins
 */
function stringEnd(text, at) {
  let end = at + 1;
  for (; text[end] !== '"'; end += 1) if (text[end] === "\\") end += 1;
  return end + 1;
}
