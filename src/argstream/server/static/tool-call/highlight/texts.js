// Tokens of what is read by its lines or its tags: markup, Markdown, YAML, diffs.

import { CodeGrammar, Tokens } from "./code.js";

/** @typedef {import("../lines.js").Token} Token */
/** @typedef {import("../highlight.js").State} State */
/** @typedef {import("../highlight.js").Grammar} Grammar */

/**
 * Stay in whatever is open.
 * @param {State} state
 */
function goOn(state) {
  return state;
}

const tag = /<\/?[a-zA-Z][\w:.-]{0,80}|<!(?!--)\w{0,20}|<\?\w{0,20}/uy;
const inTag = /[\w:@.-]+|\s+|[^\s\w:@.-]/uy;

/**
 * HTML and XML: tags, their attributes, comments.
 * @type {Grammar}
 */
export const markup = {
  tokenize(text, state) {
    const tokens = new Tokens();
    let at = 0;
    /** @type {string} */
    let mode = state?.mode ?? "text";
    while (at < text.length) {
      let end = at + 1;
      /** @type {string | null} */
      let kind = null;
      if (mode === "comment") {
        end = after(text, "-->", at);
        kind = "comment";
        if (text.startsWith("-->", end - 3) && end - 3 >= at) mode = "text";
      } else if (mode === '"' || mode === "'") {
        end = after(text, mode, at);
        kind = "string";
        if (text[end - 1] === mode) mode = "tag";
      } else if (mode === "tag") {
        const found = matchAt(inTag, text, at);
        end = at + found.length;
        if (found === '"' || found === "'") [mode, kind] = [found, "string"];
        else if (found === ">") [mode, kind] = ["text", "keyword"];
        else if (/\w/.test(found)) kind = "name";
      } else if (text.startsWith("<!--", at)) {
        end = at + 4;
        [mode, kind] = ["comment", "comment"];
      } else if (text[at] === "<") {
        const found = matchAt(tag, text, at);
        end = at + Math.max(1, found.length);
        if (found) [mode, kind] = ["tag", "keyword"];
      } else if (text[at] === "&") {
        const found = matchAt(/&[#\w]{1,12};/y, text, at);
        end = at + Math.max(1, found.length);
        if (found) kind = "number";
      } else {
        const next = text.slice(at).search(/[<&]/);
        end = next < 0 ? text.length : at + next;
      }
      tokens.add(kind, text.slice(at, end));
      at = end;
    }
    return [tokens.all, mode === "text" ? null : { mode }];
  },
  endLine: goOn,
};

const heading = /^ {0,3}#{1,6}(?:\s|$)/;
const bullet = /^[\s>]{0,40}(?:[-*+]|\d{1,9}[.)])(?=\s)|^[\s>]{0,40}>/;
const fence = /^\s{0,40}(`{3,}|~{3,})/;
const inline = new RegExp(
  [
    "(`{1,3})(?=([^`]*))\\2\\1", // looks ahead so that it never goes back
    String.raw`\*\*(?=([^*]*))\3\*\*`,
    String.raw`\]\([^\(\)\s]{0,400}\)`,
    String.raw`<?https?:\/\/[^\s<>\)]{1,400}>?`,
    "[^`*\\]<h]+|[^]",
  ].join("|"),
  "uy",
);

/**
 * Markdown: headings, code, lists, links.
 * @type {Grammar}
 */
export const markdown = {
  tokenize(text, state, isStart) {
    if (state?.mode === "paragraph") return [[["heading", text]], state];
    const mark = isStart ? fence.exec(text)?.[1] : undefined;
    if (state?.mode === "fence") {
      const closes = mark?.startsWith(String(state.mark)) && text.trim() === mark;
      return closes ? [[["comment", text]], null] : [[["string", text]], state];
    }
    if (mark !== undefined) return [[["comment", text]], { mode: "fence", mark }];
    if (isStart && heading.test(text)) return [[["heading", text]], { mode: "paragraph" }];
    const tokens = new Tokens();
    let at = 0;
    const begin = isStart ? bullet.exec(text)?.[0] : undefined;
    if (begin !== undefined) {
      tokens.add("keyword", begin);
      at = begin.length;
    }
    while (at < text.length) {
      const found = matchAt(inline, text, at) || text.slice(at);
      tokens.add(kindOfInline(found), found);
      at += found.length;
    }
    return [tokens.all, null];
  },
  endLine: (state) => (state?.mode === "paragraph" ? null : state),
};

/** @param {string} found */
function kindOfInline(found) {
  if (found.length < 3) return null;
  if (found.startsWith("`")) return "string";
  if (found.startsWith("**")) return "strong";
  return found.startsWith("](") || /^<?https?:/.test(found) ? "number" : null;
}

const yamlKey = /^(\s{0,200}(?:- {1,8}){0,8})([\w./$"'-][^:#]{0,200}?)(:)(?=\s|$)/u;
const yamlScalars = new CodeGrammar({
  name: "yaml",
  spans: [
    { open: "(?<!\\S)#", close: "", kind: "comment" },
    { open: '(?<![\\w])"', close: '"', kind: "string", hasEscapes: true, isMultiline: true },
    { open: "(?<![\\w])'", close: "'", kind: "string", isMultiline: true },
  ],
  names: "(?<!\\S)[&*!][\\w-]{1,60}",
  keywords: "true false null yes no on off",
});
const blockScalar = /[:-]\s{1,9}[|>][-+\d]{0,2}\s{0,9}$/;

/**
 * YAML: keys, scalars, and texts of several lines by how far they are indented.
 * @type {Grammar}
 */
export const yaml = {
  tokenize(text, state, isStart) {
    const indent = text.search(/\S|$/);
    if (state?.mode === "block") {
      const isInside = !isStart || indent > Number(state.indent) || indent === text.length;
      if (isInside) return [[["string", text]], state];
      state = null;
    }
    const tokens = new Tokens();
    const key = isStart && state === null ? yamlKey.exec(text) : null;
    if (key !== null) {
      const [, indentation = "", name = "", colon = ""] = key;
      tokens.add(null, indentation);
      tokens.add("name", name);
      tokens.add(null, colon);
    }
    const rest = text.slice(key?.[0].length ?? 0);
    const [more, after] = yamlScalars.tokenize(rest, state, false);
    for (const [kind, piece] of more) tokens.add(kind, piece);
    if (after === null && blockScalar.test(text.slice(-40))) {
      return [tokens.all, { mode: "block", indent }];
    }
    return [tokens.all, after];
  },
  endLine: (state) => (state?.mode === "block" ? state : yamlScalars.endLine(state)),
};

/**
 * Unified diffs, and patches in the form that begins with "*** Begin Patch".
 * @type {Grammar}
 */
export const diff = {
  tokenize(text, state, isStart) {
    const kind = isStart ? kindOfDiff(text) : state?.mode;
    return [[[kind && kind !== "plain" ? kind : null, text]], { mode: kind ?? "plain" }];
  },
  endLine: () => null,
};

const diffHeader =
  /^(?:diff |index |--- |\+\+\+ |\*\*\* |(?:new|deleted) file|rename |similarity )/;

/** @param {string} line */
function kindOfDiff(line) {
  if (line.startsWith("@@")) return "heading";
  if (diffHeader.test(line)) return "keyword";
  if (line.startsWith("+")) return "added";
  if (line.startsWith("-")) return "removed";
  return line.startsWith("\\") ? "comment" : null;
}

/**
 * Give the place behind a mark, or the end.
 * @param {string} text
 * @param {string} mark
 * @param {number} from
 */
function after(text, mark, from) {
  const place = text.indexOf(mark, from);
  return place < 0 ? text.length : place + mark.length;
}

/**
 * @param {RegExp} pattern a sticky one
 * @param {string} text
 * @param {number} at
 */
function matchAt(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0] ?? "";
}
