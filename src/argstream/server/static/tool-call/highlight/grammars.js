// How comments, strings and keywords look in the languages that code.js cuts into tokens.

/** @typedef {import("./code.js").Rules} Rules */
/** @typedef {import("./code.js").Span} Span */

/** @type {Span} */
const double = { open: '"', close: '"', kind: "string", hasEscapes: true };
/** @type {Span} */
const single = { open: "'", close: "'", kind: "string", hasEscapes: true };
/** @type {Span} */
const backtick = { open: "`", close: "`", kind: "string", hasEscapes: true, isMultiline: true };
/** @type {Span} */
const slashes = { open: "\\/\\/", close: "", kind: "comment" };
/** @type {Span} */
const block = { open: "\\/\\*", close: "*/", kind: "comment", isMultiline: true };
/** @type {Span} */
const hash = { open: "#", close: "", kind: "comment" };
/** @type {Span} */
const hashAfterBlank = { open: "(?<![^\\s;&|(])#", close: "", kind: "comment" };

/**
 * A string that goes on over lines.
 * @param {string} quote
 * @param {string} [prefix]
 * @returns {Span}
 */
function long(quote, prefix = "") {
  return {
    open: prefix + quote,
    close: quote,
    kind: "string",
    hasEscapes: true,
    isMultiline: true,
  };
}

/** @type {Rules[]} */
export const codeGrammars = [
  {
    name: "python",
    spans: [
      hash,
      long('"""', "(?:[rbfuRBFU]{1,2})?"),
      long("'''", "(?:[rbfuRBFU]{1,2})?"),
      { ...double, open: '(?:[rbfuRBFU]{1,2})?"' },
      { ...single, open: "(?:[rbfuRBFU]{1,2})?'" },
    ],
    keywords:
      "False None True and as assert async await break case class continue def del elif else " +
      "except finally for from global if import in is lambda match nonlocal not or pass raise " +
      "return try type while with yield",
    definers: "def class",
    names: "(?<!\\S)@[\\w.]+",
  },
  {
    name: "javascript",
    spans: [slashes, block, double, single, backtick],
    keywords:
      "abstract as async await break case catch class const continue debugger declare default " +
      "delete do else enum export extends false finally for from function get if implements " +
      "import in instanceof interface keyof let namespace new null of private protected public " +
      "readonly return satisfies set static super switch this throw true try type typeof " +
      "undefined var void while with yield",
    definers: "function class interface enum namespace",
    names: "@\\w+",
    hasRegularExpressions: true,
  },
  { name: "json", spans: [slashes, block, double], keywords: "true false null", hasKeys: true },
  {
    name: "shell",
    spans: [
      hashAfterBlank,
      { ...double, isMultiline: true },
      { open: "'", close: "'", kind: "string", isMultiline: true },
    ],
    literals: "\\\\.",
    keywords:
      "alias break case cd continue do done echo elif else esac eval exec exit export fi for " +
      "function if in local read return select set shift source sudo then trap unset until while",
    definers: "function",
    names: "\\$(?:\\w+|\\{\\w+\\}|[@#?$!*-])",
    hasHereDocuments: true,
  },
  {
    name: "c",
    spans: [slashes, block, double, single],
    keywords:
      "abstract alignas async auto await base bool break case catch char class const constexpr " +
      "continue default delete do double else enum explicit export extern false final float for " +
      "foreach friend get goto if in inline int interface internal long mutable namespace new " +
      "nullptr null operator override private protected public readonly ref return set short " +
      "signed sizeof static string struct switch template this throw true try typedef typename " +
      "union unsigned using var virtual void volatile while message rpc service",
    definers: "class struct enum namespace interface union message service",
    names: "(?<!\\S)#[ \\t]*[a-z]+",
  },
  {
    name: "java",
    spans: [long('"""'), slashes, block, double, single],
    keywords:
      "abstract as assert boolean break byte case catch char class companion const continue data " +
      "def default do double else enum extends extension false final finally float for fun func " +
      "guard if implements import in inout instanceof int interface internal is lateinit lazy " +
      "let long new nil null object open override package private protected protocol public " +
      "record return sealed self short static struct super suspend switch synchronized this " +
      "throw throws trait true try type val var void volatile when where while with yield",
    definers: "class interface enum record object fun func def trait struct protocol",
    names: "@\\w+",
  },
  {
    name: "go",
    spans: [
      slashes,
      block,
      double,
      single,
      { open: "`", close: "`", kind: "string", isMultiline: true },
    ],
    keywords:
      "any bool break byte case chan const continue default defer else error fallthrough false " +
      "float32 float64 for func go goto if import int int32 int64 interface iota map nil package " +
      "range return rune select string struct switch true type uint uint8 uint32 uint64 var",
    definers: "func type package",
  },
  {
    name: "rust",
    spans: [
      slashes,
      block,
      { open: 'r#"', close: '"#', kind: "string", isMultiline: true },
      { ...double, open: 'b?"', isMultiline: true },
    ],
    literals: "'(?:[^'\\\\]|\\\\.[^']{0,8})'",
    keywords:
      "as async await bool break char const continue crate dyn else enum extern f32 f64 false fn " +
      "for i32 i64 if impl in let loop match mod move mut pub ref return self Self static str " +
      "struct super trait true type u8 u32 u64 unsafe use usize where while",
    definers: "fn struct enum trait mod type",
    names: "#!?\\[\\w+|\\w+!(?=[(\\[{])|'\\w+",
  },
  {
    name: "sql",
    spans: [
      { open: "--", close: "", kind: "comment" },
      block,
      { open: "'", close: "'", kind: "string", isMultiline: true },
      { open: '"', close: '"', kind: "string" },
    ],
    ignoresCase: true,
    keywords:
      "add all alter and as asc begin between bigint boolean by cascade case char check column " +
      "commit constraint create cross database date default delete desc distinct drop else end " +
      "except exists explain false foreign from full function grant group having if in index " +
      "inner insert int integer intersect into is join key left like limit not null numeric " +
      "offset on or order outer over partition primary references replace returning right " +
      "rollback select set table text then timestamp transaction trigger true truncate union " +
      "unique update using values varchar view when where with",
  },
  {
    name: "toml",
    spans: [
      hash,
      { open: "(?<!\\S);", close: "", kind: "comment" },
      long('"""'),
      { open: "'''", close: "'''", kind: "string", isMultiline: true },
      double,
      { open: "'", close: "'", kind: "string" },
    ],
    keywords: "true false",
    names: "^\\[{1,2}[^\\]]{0,200}\\]{1,2}|(?<![^\\s{,])[\\w.-]{1,100}(?=[ \\t]{0,9}=)",
  },
  {
    name: "ruby",
    spans: [hash, double, single, backtick],
    keywords:
      "alias and begin break case class def do else elsif end ensure false for if in module next " +
      "nil not or private protected public raise redo require require_relative rescue retry " +
      "return self super then true undef unless until when while yield",
    definers: "def class module",
    names: "(?<![:\\w]):\\w+|@{1,2}\\w+",
  },
  {
    name: "php",
    spans: [
      slashes,
      hash,
      block,
      { ...double, isMultiline: true },
      { ...single, isMultiline: true },
    ],
    keywords:
      "abstract and array as break case catch class clone const continue declare default do echo " +
      "else elseif empty extends false final finally fn for foreach function global if " +
      "implements include instanceof interface isset list match namespace new null or print " +
      "private protected public readonly require require_once return static switch throw trait " +
      "true try unset use var while yield",
    definers: "function class interface trait namespace",
    names: "\\$\\w+",
  },
  {
    name: "lua",
    spans: [
      { open: "--\\[\\[", close: "]]", kind: "comment", isMultiline: true },
      { open: "--", close: "", kind: "comment" },
      { open: "\\[\\[", close: "]]", kind: "string", isMultiline: true },
      double,
      single,
    ],
    keywords:
      "and break do else elseif end false for function goto if in local nil not or repeat return " +
      "then true until while",
    definers: "function",
  },
  {
    name: "css",
    spans: [block, { ...slashes, open: "(?<!\\S)\\/\\/" }, double, single],
    literals: "#[\\da-fA-F]{3,8}(?![\\w-])",
    names: "(?<![^\\s{;])[\\w-]{1,60}(?=[ \\t]{0,9}:[^:])|--[\\w-]{1,80}|[$@][\\w-]{1,60}",
    keywords: "important",
  },
];
