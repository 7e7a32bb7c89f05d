/**
 * Small things kept in the browser; where a browser lets pages keep nothing, they last as long as
 * the page does.
 */

/** @typedef {"localStorage" | "sessionStorage"} Where */

/**
 * @param {Where} where for good, or as long as the tab is open
 * @param {string} key
 * @param {string} value "" is none
 */
export function keep(where, key, value) {
  try {
    if (value === "") window[where].removeItem(key);
    else window[where].setItem(key, value);
  } catch (error) {
    if (!(error instanceof DOMException)) throw error; // storage is off, or full
  }
}

/**
 * @param {Where} where
 * @param {string} key
 * @returns {string}
 */
export function kept(where, key) {
  try {
    return window[where].getItem(key) ?? "";
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
    return "";
  }
}
