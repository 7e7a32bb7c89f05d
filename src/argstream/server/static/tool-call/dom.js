// Elements without markup: what is shown goes into text nodes and attributes, and is made visible
// first. There is no way here to turn a text into an element or into code.

import { visible, visibleLine } from "./visible.js";

/**
 * The attributes of an element, and its `text`. `true` is an attribute without a value.
 * @typedef {{ text?: string, [attribute: string]: string | number | true | undefined }} Making
 */

/**
 * Make an element. Its text and its attributes are made visible.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Making} [making]
 * @param {(Node | string)[]} children strings are made visible too
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, { text, ...attributes } = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    setAttribute(element, name, value === true ? "" : String(value));
  }
  if (text !== undefined) element.append(visible(text));
  for (const child of children) {
    element.append(typeof child === "string" ? visible(child) : child);
  }
  return element;
}

/**
 * Set an attribute, whose value is made visible.
 * @param {Element} element
 * @param {string} name
 * @param {string} value
 */
export function setAttribute(element, name, value) {
  if (/^on|^style$|^srcdoc$/i.test(name)) throw new TypeError(`not an attribute to set: ${name}`);
  element.setAttribute(name, visibleLine(value));
}

/**
 * Set a text that is visible already, if it is another one: what stays as it is costs nothing, and
 * a selection in it stays.
 * @param {Element} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
