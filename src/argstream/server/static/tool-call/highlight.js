// Colours for code, row by row. What a text is written in is told by a file's name or by a word;
// a highlighter then takes the rows of the text in their order and cuts each into tokens. It only
// says what the pieces are: put together, they are the row, unchanged.
//
// Linear: a row is at most some thousand characters, and each rule looks at a character a bounded
// number of times. Colours may be wrong, as no grammar here is complete; they never hide anything.

import { codeGrammars } from "./highlight/grammars.js";
import { CodeGrammar } from "./highlight/code.js";
import { diff, markdown, markup, yaml } from "./highlight/texts.js";

/** @typedef {import("./lines.js").Token} Token */

/**
 * What is known at the end of a row; null at the beginning, and where nothing is open.
 * @typedef {{ mode: string, [more: string]: unknown } | null} State
 */

/**
 * Cuts a row into tokens, and says what is open behind it.
 * @typedef {(text: string, state: State, isStart: boolean) => [Token[], State]} Tokenize
 */

/**
 * @typedef {object} Grammar
 * @property {Tokenize} tokenize
 * @property {(state: State) => State} endLine what is open in the next line
 */

/** @type {Map<string, Grammar>} */
const grammars = new Map(
  /** @type {[string, Grammar][]} */ ([
    ["html", markup],
    ["markdown", markdown],
    ["yaml", yaml],
    ["diff", diff],
    ...codeGrammars.map((rules) => [rules.name, new CodeGrammar(rules)]),
  ]),
);

const extensions = new Map(
  Object.entries({
    python: "py pyi pyw pyx ipynb",
    javascript: "js mjs cjs jsx ts mts cts tsx vue svelte",
    json: "json jsonl json5 jsonc ndjson webmanifest map",
    shell: "sh bash zsh fish ksh bashrc zshrc profile env",
    c: "c h cc cpp cxx hpp hh hxx m mm cs ino proto glsl",
    java: "java kt kts scala groovy gradle swift dart",
    go: "go mod",
    rust: "rs",
    html: "html htm xhtml xml svg xsl xsd plist rss atom csproj",
    css: "css scss less sass",
    sql: "sql psql ddl",
    markdown: "md markdown mdx rst",
    yaml: "yaml yml",
    toml: "toml ini cfg conf properties editorconfig gitconfig",
    diff: "diff patch rej",
    ruby: "rb rake gemspec",
    php: "php",
    lua: "lua",
  }).flatMap(([language, names]) => names.split(" ").map((name) => [name, language])),
);

const fileNames = new Map([
  ["dockerfile", "shell"],
  ["makefile", "shell"],
  ["gemfile", "ruby"],
  ["rakefile", "ruby"],
  ["jenkinsfile", "java"],
]);

const otherNames = new Map([
  ["bash", "shell"],
  ["zsh", "shell"],
  ["sh", "shell"],
  ["typescript", "javascript"],
  ["node", "javascript"],
  ["xml", "html"],
  ["c++", "c"],
  ["c#", "c"],
  ["csharp", "c"],
  ["kotlin", "java"],
  ["patch", "diff"],
]);

/**
 * Give the language that a file's name tells, or null.
 * @param {string} path
 */
export function languageOfFile(path) {
  const name = path.slice(Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\")) + 1);
  const known = fileNames.get(name.toLowerCase());
  if (known !== undefined) return known;
  const dot = name.lastIndexOf(".");
  return dot < 0 ? null : (extensions.get(name.slice(dot + 1).toLowerCase()) ?? null);
}

/**
 * Give the language of a name such as "python", "ts" or "bash", or null.
 * @param {string} word
 */
export function languageNamed(word) {
  const name = word.trim().toLowerCase();
  if (grammars.has(name)) return name;
  return otherNames.get(name) ?? extensions.get(name) ?? null;
}

/** Cuts the rows of one text into tokens, in their order. */
class Highlighter {
  /** @param {Grammar | null} grammar */
  constructor(grammar) {
    this.grammar = grammar;
  }

  /** @type {State} */
  #state = null;
  #isStart = true;

  /**
   * Take the next row, which is complete.
   * @param {string} text
   * @param {boolean} endsLine
   * @returns {Token[]}
   */
  take(text, endsLine) {
    if (this.grammar === null) return [[null, text]];
    const [tokens, state] = this.grammar.tokenize(text, this.#state, this.#isStart);
    this.#state = endsLine ? this.grammar.endLine(state) : state;
    this.#isStart = endsLine;
    return tokens;
  }

  /**
   * Look at the row that comes next as far as it is known.
   * @param {string} text
   * @returns {Token[]}
   */
  peek(text) {
    if (this.grammar === null) return [[null, text]];
    return this.grammar.tokenize(text, this.#state, this.#isStart)[0];
  }
}

/**
 * Give a highlighter for a language; null or an unknown one: no colours.
 * @param {string | null} language
 */
export function highlighterFor(language) {
  return new Highlighter((language !== null && grammars.get(language)) || null);
}
