/**
 * The sign-in link that `argstream serve` prints: `#token=…`.
 *
 * The page loads this module before all others, so that the token is out of the address, and out of
 * the history, before anything else runs.
 */

let token = "";

/**
 * Remove the token from the address, if there is one, and keep it for `takeToken`.
 *
 * @param {string} replacement the address to show instead
 * @returns {boolean} whether there was one
 */
export function removeTokenFromAddress(replacement) {
  const [, coded] = /^#token=(.*)$/.exec(location.hash) ?? [];
  if (coded === undefined) return false;
  history.replaceState(null, "", replacement);
  token = coded;
  return true;
}

/** Return the token of the link, once; "" if there is none. */
export function takeToken() {
  const taken = token;
  token = "";
  return taken;
}

removeTokenFromAddress("#/");
