"""Pygments, one line at a time: its lexers want a whole text, a stream has only the next line.

Lexing all that came so far again for each line would cost more with each of them. Most lexers are a
stack of states and a list of rules for each state (``RegexLexer``), so what a line needs to know of
those before it is that stack. Pygments does not give it out; hence a loop of our own over its
rules, the same as its own but for two things:

- it stops at the end of a line, and leaves the stack as it is for the next one;
- what a lexer finds with a single rule that looks beyond the line, such as ``/* … */`` in many
  languages, is found by its beginning and its end here.

Lexers with a context object keep their stack in it, and it can be kept. Of all others (few: JSON,
templates) each line is lexed as if it stood alone.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

# Pygments has no types.
from pygments.lexer import (
    ExtendedRegexLexer,
    Lexer,
    LexerContext,
    RegexLexer,
)
from pygments.lexers import (
    find_lexer_class_by_name,
    find_lexer_class_for_filename,
)
from pygments.lexers.data import YamlLexer, YamlLexerContext
from pygments.lexers.markup import MarkdownLexer
from pygments.lexers.special import TextLexer
from pygments.token import Comment, Error, Generic, String
from pygments.util import ClassNotFound

from argstream.terminal._fences import is_closed_by, opened_by
from argstream.terminal._rules import Rules

__all__ = ["LineLexer", "Token", "give_up", "lexer_for"]

Token: TypeAlias = tuple[Any, str]
"""A type of Pygments, and the text."""

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
_rules: Final[dict[type[Lexer], dict[str, Rules]]] = {}
_slow: Final[Counter[type[Lexer]]] = Counter()  # how often each has been, as long as we live


class LineLexer(Protocol):
    """Lexes a text line by line."""

    @property
    def kind(self) -> type[Lexer]:
        """Who lexes the next line."""
        ...

    def tokens(self, line: str) -> list[Token]:
        """Give the tokens of the next line, which ends with its newline."""
        ...


def lexer_for(language: str | None, path: str | None) -> LineLexer | None:
    """Find who lexes a language, or else a file of this name; None if nobody is known to."""
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
    """Say that one was far too slow: soon, nobody asks it any more, whatever text it is for."""
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
    """Lexers that keep their states in an object, which is handed from line to line."""

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


class _Spanning(NamedTuple):
    """Something that may go on over lines, and is a single rule of its lexer."""

    opening: str
    closing: str
    token: Any


class _ByRules:
    """Lexers of states and rules."""

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
        """Take the first rule that matches, and give where it leads to."""
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
        """Find where that ends which began on a line before; 0 if nothing did."""
        if self._inside is None:
            return 0
        end = line.find(self._inside.closing)
        position = len(line) if end < 0 else end + len(self._inside.closing)
        found.append((self._inside.token, line[:position]))
        if end >= 0:
            self._inside = None
        return position

    def _begun(self, line: str, position: int) -> _Spanning | None:
        """Say what begins here and does not end on this line."""
        state = self._stack[-1]
        if state not in self._spanning:
            self._spanning[state] = list(self._spanning_in(state))
        for spanning in self._spanning[state]:
            if line.startswith(spanning.opening, position):
                ends = line.find(spanning.closing, position + len(spanning.opening)) >= 0
                return None if ends else spanning
        return None

    def _spanning_in(self, state: str) -> Iterator[_Spanning]:
        """Try which of the usual delimiters a single rule of this state knows."""
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
    """Give the rules of each state."""
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
