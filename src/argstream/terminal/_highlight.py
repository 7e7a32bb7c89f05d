"""Source code in colours, one completed line at a time.

A line costs a tenth of a millisecond, however many came before it. Colours are not worth a failure
or a wait: a lexer that raises or is slow is not asked again, and lines that no person wrote are
shown as they are.

What is lexed is the raw text, for what makes it visible would be no code; each token is made
visible after that.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import thread_time
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

# Pygments has no types.
from pygments.lexer import ExtendedRegexLexer, Lexer, LexerContext, RegexLexer
from pygments.lexers import find_lexer_class_by_name, find_lexer_class_for_filename
from pygments.lexers.data import YamlLexer, YamlLexerContext
from pygments.lexers.markup import MarkdownLexer
from pygments.lexers.special import TextLexer
from pygments.token import Comment, Error, Generic, String
from pygments.util import ClassNotFound

from argstream.sanitise import visible
from argstream.terminal._layout import expand_tabs, width
from argstream.terminal._text import Role, Span, Spans

_Match: TypeAlias = Callable[[str, int], re.Match[str] | None]
Rule: TypeAlias = tuple[_Match, Any, Any]
"""As Pygments has it: what matches, what is made of it, and the state that follows."""
# What means something else inside a larger pattern: references to groups, and their names.
_refers: Final = re.compile(r"\\[1-9]|\(\?P|\(\?\(").search
_flags_first: Final = re.compile(r"\A\(\?[ims]+\)")
_LETTERS: Final = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s"}
_ALLOWED: Final = re.UNICODE | re.IGNORECASE | re.MULTILINE | re.DOTALL
_LARGE: Final = 20_000  # characters of patterns: more take too long to compile
# A language may be followed by anything but backticks: those would be code within a sentence.
_opening: Final = re.compile(r"\s*(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^`]*$").match
Token: TypeAlias = tuple[Any, str]  # a type of Pygments, and the text
_DELIMITERS: Final = (
    ("/*", "*/"),
    ("<!--", "-->"),
    ("--[[", "]]"),
    ("{-", "-}"),
    ("(*", "*)"),
    ('"""', '"""'),
    ("'''", "'''"),
)
_find_delimiter: Final = re.compile(
    "|".join(re.escape(opening) for opening, _ in _DELIMITERS)
).search
_CODE: Final = Generic.Code  # in a sentence: Pygments has strings only
_MAX_STACK: Final = 200
_MAX_STEPS: Final = 10_000
_CHANCES: Final = 3  # for once, it may be the garbage collector that was slow
_slow: Final[Counter[type[Lexer]]] = Counter()  # how often each has been, as long as we live
# A rule can need time that grows with the square or the cube of a line's length, and no one can
# stop it. So what is too long for a person is not lexed, and a lexer has one chance.
_LONG_LINE: Final = 240
_SLOW: Final = 0.05  # seconds of work
_ROLES: Final[dict[tuple[str, ...], Role]] = {
    ("Comment",): "comment",
    ("Comment", "Preproc"): "keyword",
    ("Comment", "PreprocFile"): "string",
    ("Keyword",): "keyword",
    ("Keyword", "Constant"): "builtin",
    ("Keyword", "Type"): "builtin",
    ("Literal", "String"): "string",
    ("Literal", "Number"): "number",
    ("Literal", "Date"): "number",
    ("Name", "Attribute"): "builtin",
    ("Name", "Builtin"): "builtin",
    ("Name", "Class"): "name",
    ("Name", "Decorator"): "name",
    ("Name", "Exception"): "builtin",
    ("Name", "Function"): "name",
    ("Name", "Tag"): "name",
    ("Operator",): "operator",
    ("Operator", "Word"): "keyword",
    ("Generic", "Code"): "code",
    ("Generic", "Deleted"): "removed",
    ("Generic", "Heading"): "heading",
    ("Generic", "Inserted"): "added",
    ("Generic", "Strong"): "strong",
    ("Generic", "EmphStrong"): "strong",
    ("Generic", "Subheading"): "heading",
}
_role_of_type: dict[Any, Role] = {}  # the same, for each type that was seen


class Fence(NamedTuple):
    marks: str
    language: str  # as named in the fence; may be empty


class LineLexer(Protocol):
    """Lexes a text line by line."""

    @property
    def kind(self) -> type[Lexer]:
        """The lexer of the next line."""
        ...

    def tokens(self, line: str) -> list[Token]:
        """Return the tokens of the next line, which ends with its newline."""
        ...


class Highlighter:
    """Colours the lines of a text in their order."""

    def __init__(self, language: str | None = None, *, path: str | None = None) -> None:
        """Colour by the name of a language, such as ``python``, or else by that of a file."""
        try:
            self._lexer = lexer_for(language, path)
        except Exception:  # noqa: BLE001 - a plugin of Pygments that cannot be loaded
            self._lexer = None

    def line(self, text: str) -> Spans:
        """Colour the next line, which is complete and has no newline."""
        code = text.removesuffix("\r")
        pieces = self._lexed(code)
        if code != text:
            pieces.append(("\r", "faint"))
        return source_spans(pieces)

    def _lexed(self, text: str) -> list[tuple[str, Role]]:
        if self._lexer is None or len(text) > _LONG_LINE:
            return [(text, "plain")]
        kind = self._lexer.kind
        begun = thread_time()
        try:
            tokens = self._lexer.tokens(text + "\n")
        except Exception:  # noqa: BLE001 - of lexers there are hundreds, and a model feeds them
            tokens = []
        pieces = _pieces(tokens)
        is_slow = thread_time() - begun > _SLOW
        if is_slow:
            give_up(kind)
        if is_slow or "".join(piece for piece, _ in pieces) != text:
            self._lexer = None
            return [(text, "plain")]
        return pieces


def source_spans(pieces: Iterable[tuple[str, Role]]) -> Spans:
    """Make the pieces of one line visible; tabs become spaces up to the next multiple of four."""
    safe = [Span(visible(text), role) for text, role in pieces]
    return _expanded(safe) if any("\t" in span.text for span in safe) else tuple(safe)


def _expanded(spans: Iterable[Span]) -> Spans:
    expanded = []
    column = 0
    for text, role in spans:
        span = Span(expand_tabs(text, column), role)
        column += width(span.text)
        expanded.append(span)
    return tuple(expanded)


def _pieces(tokens: Iterable[Token]) -> list[tuple[str, Role]]:
    """Join neighbours of the same role. The newline at the end is not shown."""
    pieces: list[tuple[str, Role]] = []
    for token, token_text in tokens:
        text = token_text.removesuffix("\n")
        if not text:
            continue
        role = _role_of_type.get(token) or _find_role(token)
        if pieces and pieces[-1][1] == role:
            text = pieces.pop()[0] + text
        pieces.append((text, role))
    return pieces


def _find_role(token: tuple[str, ...]) -> Role:
    """Return the role of a type, or of the nearest type that it is a kind of."""
    names = tuple(token)
    while names and names not in _ROLES:
        names = names[:-1]
    return _role_of_type.setdefault(token, _ROLES[names] if names else "plain")


def opened_by(line: str) -> Fence | None:
    """Return the fence that a line outside of code is."""
    opening = _opening(line)
    return None if opening is None else Fence(opening[1], opening[2])


def is_closed_by(line: str, marks: str) -> bool:
    """Return whether a line ends the code that such a fence has opened."""
    bare = line.strip()
    return bare.startswith(marks) and not bare.strip(marks[0])


def lexer_for(language: str | None, path: str | None) -> LineLexer | None:
    """Return a lexer for a language, or else for a file name; None if there is none."""
    found = None
    if language:
        try:
            found = find_lexer_class_by_name(language)
        except ClassNotFound:
            found = None  # a name that a model made up
    if found is None and path:
        found = find_lexer_class_for_filename(path)
    if found is None or issubclass(found, TextLexer) or _slow[found] >= _CHANCES:
        return None
    return _line_lexer(found(stripnl=False, ensurenl=False))


def give_up(kind: type[Lexer]) -> None:
    """Note that a lexer was far too slow. Soon it is not used any more, for any text."""
    _slow[kind] += 1


def _line_lexer(lexer: Lexer) -> LineLexer:
    if isinstance(lexer, MarkdownLexer):
        return _Markdown(_ByRules(lexer))
    if isinstance(lexer, ExtendedRegexLexer):
        return _ByContext(lexer)
    if isinstance(lexer, RegexLexer) and "_tokens" in type(lexer).__dict__:
        return _ByRules(lexer)
    return _LineByLine(lexer)


class _LineByLine:
    """Each line as if it stood alone."""

    def __init__(self, lexer: Lexer) -> None:
        self.kind = type(lexer)
        self._lexer = lexer

    def tokens(self, line: str) -> list[Token]:
        return [(token, text) for _, token, text in self._lexer.get_tokens_unprocessed(line)]


class _ByContext:
    """For lexers that keep their states in an object, which is passed from line to line."""

    def __init__(self, lexer: ExtendedRegexLexer) -> None:
        self.kind = type(lexer)
        self._lexer = lexer
        make = YamlLexerContext if isinstance(lexer, YamlLexer) else LexerContext
        self._context = make("", 0)

    def tokens(self, line: str) -> list[Token]:
        context = self._context
        context.text, context.pos, context.end = line, 0, len(line)
        found = self._lexer.get_tokens_unprocessed(context=context)
        tokens = [(token, text) for _, token, text in found]
        if len(context.stack) > _MAX_STACK:
            context.stack = ["root"]
        return tokens


class Rules:
    """Finds the first rule that matches."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._combined: tuple[_Match, dict[int | None, Rule]] | None = None

    def first(self, line: str, position: int) -> tuple[re.Match[str], Any, Any] | None:
        rules = self._rules
        if self._combined is not None:
            match_any, by_group = self._combined
            which = match_any(line, position)
            if which is None:
                return None
            rules = (by_group[which.lastindex],)
        for match_here, action, new_state in rules:
            match = match_here(line, position)
            if match is not None:
                return match, action, new_state
        return None

    def combine(self) -> None:
        """Make one pattern of all rules, if they allow it; that takes some milliseconds."""
        self._combined = _combined(self._rules)


def _combined(rules: Sequence[Rule]) -> tuple[_Match, dict[int | None, Rule]] | None:
    """Return a pattern that matches as any of the rules do, with the rule as its last group."""
    by_group: dict[int | None, Rule] = {}
    alternatives = []
    group = 0
    for rule in rules:
        pattern = getattr(rule[0], "__self__", None)
        if not isinstance(pattern, re.Pattern):  # Pygments has other things that match
            return None
        if pattern.flags & ~_ALLOWED or _refers(pattern.pattern):
            return None
        letters = "".join(letter for flag, letter in _LETTERS.items() if pattern.flags & flag)
        # The empty group at its end tells that it was this one.
        alternatives.append(f"(?{letters}:{_flags_first.sub('', pattern.pattern)})()")
        group += pattern.groups + 1
        by_group[group] = rule
    pattern = "|".join(alternatives)
    return (re.compile(pattern).match, by_group) if len(pattern) <= _LARGE else None


_rules: Final[dict[type[Lexer], dict[str, Rules]]] = {}


class _Spanning(NamedTuple):
    """Something that may span lines, and is a single rule of its lexer."""

    opening: str
    closing: str
    token: Any


class _ByRules:
    """For lexers with states and rules."""

    def __init__(self, lexer: RegexLexer) -> None:
        self.kind = type(lexer)
        self._lexer = lexer
        self._rules = _rules_of(self.kind)
        self._stack = ["root"]
        self._inside: _Spanning | None = None
        self._spanning: dict[str, list[_Spanning]] = {}  # by state

    def tokens(self, line: str) -> list[Token]:
        found: list[Token] = []
        position = self._end_of_begun(line, found)
        has_delimiter = _find_delimiter(line, position) is not None
        for _ in range(_MAX_STEPS):
            if position >= len(line):
                break
            if has_delimiter and (begun := self._begun(line, position)):
                self._inside = begun
                found.append((begun.token, line[position:]))
                break
            position = self._step(line, position, found)
        else:
            raise RecursionError("the rules of this lexer go round in a circle")
        if len(self._stack) > _MAX_STACK:
            self._stack = ["root"]
        return found

    def _step(self, line: str, position: int, found: list[Token]) -> int:
        rule = self._rules[self._stack[-1]].first(line, position)
        if rule is None:
            if line[position] == "\n":
                self._stack = ["root"]
            found.append((Error, line[position]))
            return position + 1
        match, action, new_state = rule
        if callable(action):
            found += [(token, text) for _, token, text in action(self._lexer, match)]
        elif action is not None:
            found.append((action, match.group()))
        if new_state is not None:
            self._go_to(new_state)
        return match.end()

    def _go_to(self, new_state: int | str | tuple[str, ...]) -> None:
        """Change the stack as a rule says: the states to push, or how many to pop."""
        stack = self._stack
        if isinstance(new_state, int):
            del stack[max(len(stack) + new_state, 1) :]
            return
        for state in (new_state,) if isinstance(new_state, str) else new_state:
            if state == "#push":
                stack.append(stack[-1])
            elif state != "#pop":
                stack.append(state)
            elif len(stack) > 1:
                stack.pop()

    def _end_of_begun(self, line: str, found: list[Token]) -> int:
        """Find the end of what began on a line before; 0 if nothing did."""
        if self._inside is None:
            return 0
        end = line.find(self._inside.closing)
        position = len(line) if end < 0 else end + len(self._inside.closing)
        found.append((self._inside.token, line[:position]))
        if end >= 0:
            self._inside = None
        return position

    def _begun(self, line: str, position: int) -> _Spanning | None:
        """Find what begins here and does not end on this line."""
        state = self._stack[-1]
        if state not in self._spanning:
            self._spanning[state] = list(self._spanning_in(state))
        for spanning in self._spanning[state]:
            if line.startswith(spanning.opening, position):
                ends = line.find(spanning.closing, position + len(spanning.opening)) >= 0
                return None if ends else spanning
        return None

    def _spanning_in(self, state: str) -> Iterator[_Spanning]:
        """Find out which of the usual delimiters a single rule of this state knows."""
        for opening, closing in _DELIMITERS:
            sample = f"{opening} x\nx {closing}"
            rule = self._rules[state].first(sample, 0)
            if rule is None:
                continue
            match, action, _ = rule
            is_all = match.end() == len(sample) and not callable(action)
            if is_all and (action in Comment or action in String):
                yield _Spanning(opening, closing, action)


def _rules_of(kind: type[RegexLexer]) -> dict[str, Rules]:
    if kind not in _rules:
        states = kind._tokens  # noqa: SLF001 - there is no other way to them
        _rules[kind] = {state: Rules(rules) for state, rules in states.items()}
        _rules[kind]["root"].combine()  # where most of most texts is
    return _rules[kind]


class _Markdown:
    """Markdown, and the languages between its fences."""

    def __init__(self, prose: LineLexer) -> None:
        self._prose = prose
        self._fence = ""  # what began the code that we are in
        self._code: LineLexer | None = None

    @property
    def kind(self) -> type[Lexer]:
        return self._prose.kind if self._code is None else self._code.kind

    def tokens(self, line: str) -> list[Token]:
        if not self._fence:
            fence = opened_by(line)
            if fence is None:
                tokens = self._prose.tokens(line)
                return [
                    (_CODE if token is String.Backtick else token, text) for token, text in tokens
                ]
            self._fence = fence.marks
            self._code = lexer_for(fence.language, None)
        elif is_closed_by(line, self._fence):
            self._fence = ""
            self._code = None
        elif self._code is not None:
            return self._code.tokens(line)
        return [(_CODE, line)]
