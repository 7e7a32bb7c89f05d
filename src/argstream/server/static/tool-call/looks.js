// What an argument is, by its name and its tool's name: the old and the new text of an edit, a
// command, the text of a file. The names are those of argstream/terminal/looks. A guess may be
// wrong, so it changes only how something is shown, never whether it is.

import { languageNamed, languageOfFile } from "./highlight.js";

/**
 * What is known of an argument: see Argument in argstream.js.
 * @typedef {object} Argument
 * @property {string | number | null} key
 * @property {string | null} kind
 * @property {string} text
 * @property {unknown} value
 * @property {boolean} isDone
 * @property {Argument[]} children
 */

/** @typedef {{ old: Argument, new: Argument | null }} EditArguments */

/**
 * What an object tells about the texts in it: that they are of a file, and their language.
 * @typedef {{ hasFile: boolean, language: string | null }} Surroundings
 */

const PATHS = words(`path file_path filepath filePath file filename file_name fileName target_file
  targetFile absolute_path relative_path notebook_path AbsolutePath TargetFile`);
const TEXTS = words(`content contents text source body data new_source file_text fileText
  file_content file_contents fileContent CodeContent`);
const CERTAIN_TEXTS = words(
  "file_text fileText file_content file_contents fileContent CodeContent",
);
const CODE = new Map([
  ["code", null],
  ["source_code", null],
  ["python", "python"],
  ["python_code", "python"],
  ["javascript", "javascript"],
  ["sql", "sql"],
  ["html", "html"],
  ["css", "css"],
  ["patch", "diff"],
  ["diff", "diff"],
  ["unified_diff", "diff"],
  ["patch_text", "diff"],
]);
const EDITS = [
  ["old_string", "new_string"],
  ["old_str", "new_str"],
  ["old_text", "new_text"],
  ["old_content", "new_content"],
  ["old_code", "new_code"],
  ["old", "new"],
  ["oldString", "newString"],
  ["oldText", "newText"],
  ["oldStr", "newStr"],
  ["original", "replacement"],
  ["original_text", "new_text"],
  ["search", "replace"],
  ["find", "replace"],
  ["search", "replacement"],
  ["find", "replacement"],
  ["pattern", "replacement"],
];
const OLD = new Set(EDITS.map(([old]) => old));
const NEW = new Set(EDITS.map((pair) => pair[1]));
// Words that mean something else in a tool that does not edit.
const UNSURE = words("search find pattern original replace replacement");
const COMMANDS = words("command cmd script shell_command bash_command CommandLine");
const NAMED = words("json yaml toml markdown bash typescript xml");
const LANGUAGES = ["python", "javascript", "typescript", "sql", "bash", "ruby", "php", "lua"];
const CHANGES = words("edit edits replace patch modify update substitute multiedit");
const MANY = 64; // children, beyond which an object is data and no call of an editor

/** @param {string} text */
function words(text) {
  return new Set(text.split(/\s+/));
}

/** What the arguments of a tool seem to be. */
export class Looks {
  /** @param {string} tool its name */
  constructor(tool) {
    const found = tool.slice(0, 200).match(/[A-Z]?[a-z]+|[A-Z]+|\d+/g) ?? [];
    this.words = new Set(found.map((word) => word.toLowerCase()));
    this.changes = [...this.words].some((word) => CHANGES.has(word));
  }

  /**
   * Find the edit that an object is: an old text and a new one, or an old one so far.
   * @param {Argument} object
   * @returns {EditArguments | null}
   */
  edit(object) {
    if (object.kind !== "object" || object.children.length > MANY) return null;
    const { children } = object;
    const old = children.find((child) => OLD.has(String(child.key)) && isText(child));
    const after = children.find((child) => NEW.has(String(child.key)) && isText(child));
    if (old === undefined) return null;
    if (after !== undefined) {
      const isPair = EDITS.some((pair) => pair[0] === old.key && pair[1] === after.key);
      const isSure = this.changes || ![old, after].some(({ key }) => UNSURE.has(String(key)));
      return isPair && (isSure || typeof object.key === "number") ? { old, new: after } : null;
    }
    const mayCome = !object.isDone && (this.changes || !UNSURE.has(String(old.key)));
    return mayCome ? { old, new: null } : null;
  }

  /**
   * Say what an object tells about the texts in it; what it does not tell is as around it.
   * @param {Argument} object
   * @param {Surroundings} around
   * @returns {Surroundings}
   */
  within(object, around) {
    if (object.kind !== "object") return around;
    let { hasFile, language } = around;
    for (const { key, kind, text, isDone } of object.children.slice(0, MANY)) {
      if (kind !== "string") continue;
      const isPath = PATHS.has(String(key));
      hasFile ||= isPath;
      if (isDone && isPath) language = languageOfFile(text) ?? language;
      if (isDone && key === "language") return { hasFile, language: languageNamed(text) };
    }
    return { hasFile, language };
  }

  /**
   * Say how a text is shown: whether as a block however short it is, whether its lines have
   * numbers, and in which language.
   * @param {Argument} argument
   * @param {Surroundings} around
   * @returns {{ isBlock: boolean, isNumbered: boolean, language: string | null }}
   */
  text(argument, { hasFile, language }) {
    const name = String(argument.key);
    if (argument.key === null) {
      const own = this.words.has("patch") ? "diff" : this.#spoken();
      return { isBlock: true, isNumbered: true, language: own };
    }
    if (COMMANDS.has(name) && !this.changes) {
      return { isBlock: true, isNumbered: false, language: "shell" };
    }
    if (CODE.has(name)) {
      const own = CODE.get(name) ?? language ?? this.#spoken();
      return { isBlock: true, isNumbered: true, language: own };
    }
    const isFile = hasFile || this.words.has("file");
    if (CERTAIN_TEXTS.has(name) || (TEXTS.has(name) && isFile)) {
      return { isBlock: true, isNumbered: true, language };
    }
    const own = NAMED.has(name) ? languageNamed(name) : null;
    return { isBlock: false, isNumbered: false, language: own };
  }

  /** The language that the tool's name says. */
  #spoken() {
    const word = LANGUAGES.find((language) => this.words.has(language));
    return word === undefined ? null : languageNamed(word);
  }
}

/** @param {Argument} argument */
function isText({ kind }) {
  return kind === "string" || kind === null;
}
