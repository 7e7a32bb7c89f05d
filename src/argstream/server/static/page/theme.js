/**
 * Light, dark, or as the system has it: kept in this browser, and set before the first paint.
 */

import { keep, kept } from "./keeping.js";
import { part } from "./parts.js";

const KEY = "argstream.theme";
const THEMES = ["system", "light", "dark"];

function chosen() {
  const theme = kept("localStorage", KEY);
  return THEMES.includes(theme) ? theme : "system";
}

/** @param {string} theme */
function set(theme) {
  document.documentElement.dataset.theme = theme;
}

set(chosen());

/** Let the button change the theme, from one to the next. */
export function offerThemes() {
  const button = part("theme", HTMLElement);
  let theme = chosen();
  button.textContent = `Theme: ${theme}`;
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "system";
    keep("localStorage", KEY, theme);
    set(theme);
    button.textContent = `Theme: ${theme}`;
  });
}
