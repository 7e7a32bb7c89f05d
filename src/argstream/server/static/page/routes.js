/**
 * Where one is, in the fragment of the address: so a reload, a link and "back" find it again.
 */

/** @typedef {{ kind: "new" } | { kind: "conversation" | "run", id: string }} Route */

/**
 * Read a fragment; one that means nothing is a new conversation.
 *
 * @param {string} hash
 * @returns {Route}
 */
export function routeOf(hash) {
  const [, kind, coded] = /^#\/([cr])\/([^/]+)$/.exec(hash) ?? [];
  if (coded === undefined) return { kind: "new" };
  try {
    return { kind: kind === "c" ? "conversation" : "run", id: decodeURIComponent(coded) };
  } catch {
    return { kind: "new" }; // no address of ours
  }
}

/** @param {string} id */
export function conversationLink(id) {
  return `#/c/${encodeURIComponent(id)}`;
}

/** @param {string} id */
export function runLink(id) {
  return `#/r/${encodeURIComponent(id)}`;
}
