// What a model wrote, made safe to show: the same table and the same rules as in
// argstream/sanitise.py, where they are explained. Each character is spelled alike wherever it
// stands, so a stream can be made visible piece by piece.

import { table } from "../visible-table.js";

const { opening, closing, kept } = table;
const names = new Map(Object.entries(table.names));
const codes = new Map([...names].map(([number, name]) => [name, parseInt(number.slice(2), 16)]));

const hidden = pattern("");
const hiddenInText = pattern(kept);
const plainText = /^[\t\n\x20-\x7e]*$/;
const plainLine = /^[\x20-\x7e]*$/;
const spelling = new RegExp(
  `${opening}(?:U\\+((?:[1-9A-F]|10)?[0-9A-F]{4})|([A-Z0-9]+))${closing}`,
  "gu",
);

/**
 * Spell out what would act or hide; newlines and tabs stay.
 * @param {string} text
 */
export function visible(text) {
  return plainText.test(text) ? text : text.replace(hiddenInText, spell);
}

/**
 * Spell out newlines and tabs too: for a name, an id, a heading, which are one line.
 * @param {string} text
 */
export function visibleLine(text) {
  return plainLine.test(text) ? text : text.replace(hidden, spell);
}

/**
 * Read back what `visible` or `visibleLine` has spelled, for instance after an edit.
 * What is not a spelling stays as it is.
 * @param {string} shown
 */
export function original(shown) {
  return shown.replace(spelling, (whole, number, name) => {
    const code = number ? parseInt(number, 16) : codes.get(name);
    return code === undefined ? whole : String.fromCodePoint(code);
  });
}

/** @param {string} character */
function spell(character) {
  const number = numberOf(character.codePointAt(0) ?? 0);
  return opening + (names.get(number) ?? number) + closing;
}

/** @param {number} code */
function numberOf(code) {
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

/**
 * Make the pattern for what is spelled out.
 * @param {string} except
 */
function pattern(except) {
  const exceptions = [...except].map((character) => character.codePointAt(0) ?? 0);
  let set = "";
  for (const [first, last] of table.ranges) {
    let from = first;
    for (const code of exceptions.filter((code) => code >= first && code <= last).sort(ascending)) {
      if (code > from) set += range(from, code - 1);
      from = code + 1;
    }
    if (from <= last) set += range(from, last);
  }
  return new RegExp(`[${set}]`, "gu");
}

/**
 * @param {number} first
 * @param {number} last
 */
function range(first, last) {
  return `\\u{${first.toString(16)}}-\\u{${last.toString(16)}}`;
}

/**
 * @param {number} one
 * @param {number} other
 */
function ascending(one, other) {
  return one - other;
}
