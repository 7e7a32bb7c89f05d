// One tokenizer for the languages that have comments, strings, numbers and words, and differ only
// in how these look. A grammar says how; see grammars.js.

/** @typedef {import("../lines.js").Token} Token */
/** @typedef {import("../highlight.js").State} State */

/**
 * How a string or a comment begins and ends.
 * @typedef {object} Span
 * @property {string} open a regular expression
 * @property {string} close the text that ends it; empty: the end of the line
 * @property {"string" | "comment"} kind
 * @property {boolean} [isMultiline]
 * @property {boolean} [hasEscapes] whether a backslash takes the next character along
 */

/**
 * @typedef {object} Rules
 * @property {string} name
 * @property {Span[]} spans tried in their order
 * @property {string} [keywords] separated by spaces
 * @property {string} [definers] the keywords after which a name is being defined
 * @property {boolean} [ignoresCase]
 * @property {string} [names] a regular expression for what else is a name: variables, decorators
 * @property {string} [literals] a regular expression for what else is a string: characters
 * @property {boolean} [hasRegularExpressions] between slashes, where no division can be
 * @property {boolean} [hasHereDocuments]
 * @property {boolean} [hasKeys] whether a string before a colon is a name
 */

const number =
  String.raw`(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)` +
  String.raw`[a-zA-Z%]{0,3}(?!\w)`;
const word = String.raw`[\p{L}_$][\p{L}\p{N}_$]*`;
const regularExpression =
  String.raw`\/(?![*\/])(?:[^\\\/\[]|\\.|\[(?:[^\]\\]|\\.)*\])+\/[a-z]{0,8}`;
const hereDocument = String.raw`<<-?[ \t]*(?:'\w+'|"\w+"|\w+)`;

// What a division may follow: then a slash begins no regular expression.
const endsValue = /[\w)\]}$]\s*$/;
const endsWithKeyword = /(?:^|[^\w$.])(?:return|typeof|case|in|of|yield|await|do|else)\s*$/;

export class CodeGrammar {
  /** @param {Rules} rules */
  constructor(rules) {
    this.rules = rules;
    this.keywords = new Set((rules.keywords ?? "").split(" "));
    this.definers = new Set((rules.definers ?? "").split(" "));
  }

  /** @type {RegExp | null} */
  #pattern = null;

  /** The rules as one pattern, in the order of its groups; made when it is first needed. */
  get pattern() {
    const { rules } = this;
    this.#pattern ??= new RegExp(
      [
        ...rules.spans.map((span) => `(${span.open})`),
        `(${rules.literals ?? "(?!)"})`,
        `(${rules.hasHereDocuments ? hereDocument : "(?!)"})`,
        `(${rules.hasRegularExpressions ? regularExpression : "(?!)"})`,
        `(${rules.names ?? "(?!)"})`,
        `(${number})`,
        `(${word})`,
        String.raw`\s+|[\p{L}\p{N}_$]+|[^\s\p{L}\p{N}_$]`,
      ].join("|"),
      "uy",
    );
    return this.#pattern;
  }

  /**
   * @param {string} text
   * @param {State} state
   * @param {boolean} isStart
   * @returns {[Token[], State]}
   */
  tokenize(text, state, isStart) {
    const tokens = new Tokens();
    let at = 0;
    if (state?.mode === "here") {
      if (!isStart || text.trim() !== state.end) return [[["string", text]], state];
      return [[["keyword", text]], null];
    }
    if (state?.mode === "span") {
      const span = this.#span(state.span);
      const end = endOf(span, text, state.isEscaped ? 1 : 0);
      tokens.add(span.kind, text.slice(0, end.at));
      if (!end.isClosed) return [tokens.all, { ...state, isEscaped: end.isEscaped }];
      at = end.at;
      state = null;
    }
    let defines = false;
    while (at < text.length) {
      this.pattern.lastIndex = at;
      const match = this.pattern.exec(text);
      if (match === null) throw new Error(`no rule for ${text[at]}`); // the last ones take all
      const group = match.findIndex((found, index) => index > 0 && found !== undefined) - 1;
      const spans = this.rules.spans.length;
      let found = match[0];
      if (group === spans + 2 && !allowsExpression(text, at)) {
        found = "/";
        tokens.add(null, found);
      } else if (group >= 0 && group < spans) {
        const span = this.#span(group);
        const end = endOf(span, text, at + found.length);
        found = text.slice(at, end.at);
        const behind = text.slice(end.at, end.at + 9);
        const isKey = this.rules.hasKeys && end.isClosed && /^\s*:/.test(behind);
        tokens.add(isKey ? "name" : span.kind, found);
        if (!end.isClosed) {
          return [tokens.all, { mode: "span", span: group, isEscaped: end.isEscaped }];
        }
      } else if (group >= 0) {
        tokens.add(this.#kindOf(group - spans, found, defines), found);
        if (group === spans + 1) {
          state = { mode: "soon", end: found.replace(/^<<-?[ \t]*|['"]/g, "") };
        }
      } else {
        tokens.add(null, found);
      }
      if (found.trim()) defines = this.definers.has(found);
      at += found.length;
    }
    return [tokens.all, state];
  }

  /**
   * @param {State} state
   * @returns {State}
   */
  endLine(state) {
    if (state?.mode === "soon") return { mode: "here", end: state.end };
    if (state?.mode !== "span") return state;
    const span = this.#span(state.span);
    if (span.isMultiline || (span.hasEscapes && state.isEscaped)) {
      return { ...state, isEscaped: false };
    }
    return null;
  }

  /** @param {unknown} index */
  #span(index) {
    const span = this.rules.spans[Number(index)];
    if (span === undefined) throw new Error("a state of another grammar");
    return span;
  }

  /**
   * @param {number} group
   * @param {string} found
   * @param {boolean} defines
   */
  #kindOf(group, found, defines) {
    if (group < 3) return group === 1 ? "keyword" : "string";
    if (group === 3) return "name";
    if (group === 4) return "number";
    const key = this.rules.ignoresCase ? found.toLowerCase() : found;
    if (this.keywords.has(key)) return "keyword";
    return defines ? "name" : null;
  }
}

/** Tokens of a row, neighbours of the same kind as one. */
export class Tokens {
  /** @type {Token[]} */
  all = [];

  /**
   * @param {string | null} kind
   * @param {string} text
   */
  add(kind, text) {
    if (text === "") return;
    const last = this.all.at(-1);
    if (last !== undefined && last[0] === kind) last[1] += text;
    else this.all.push([kind, text]);
  }
}

/**
 * Find where a string or a comment ends, from a place inside it on.
 * @param {Span} span
 * @param {string} text
 * @param {number} from
 */
function endOf(span, text, from) {
  const open = { at: text.length, isClosed: false, isEscaped: false };
  if (span.close === "") return open;
  if (!span.hasEscapes) {
    const place = text.indexOf(span.close, from);
    return place < 0 ? open : { ...open, at: place + span.close.length, isClosed: true };
  }
  for (let at = from; at < text.length; at += 1) {
    if (text[at] === "\\") {
      at += 1;
      if (at === text.length) open.isEscaped = true;
    } else if (text.startsWith(span.close, at)) {
      return { ...open, at: at + span.close.length, isClosed: true };
    }
  }
  return open;
}

/**
 * Say whether a slash here begins a regular expression.
 * @param {string} text
 * @param {number} at
 */
function allowsExpression(text, at) {
  const before = text.slice(Math.max(0, at - 40), at);
  return !endsValue.test(before) || endsWithKeyword.test(before);
}
