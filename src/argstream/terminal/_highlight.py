"""Source code in colours and Markdown, one completed line at a time.

A line costs a tenth of a millisecond, however many came before it. Colours are not worth a failure
or a wait: a lexer that raises or is slow is not asked again, and lines that no person wrote are
shown as they are.

What is lexed is the raw text, for what makes it visible would be no code; each token is made
visible after that.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import groupby
from operator import itemgetter
from time import thread_time
from typing import TYPE_CHECKING, Any, Final, TypeAlias

# Pygments has no types.
from pygments.lexer import ExtendedRegexLexer, Lexer, LexerContext, RegexLexer
from pygments.lexers import find_lexer_class_by_name, find_lexer_class_for_filename
from pygments.lexers.data import YamlLexer, YamlLexerContext
from pygments.lexers.special import TextLexer
from pygments.token import Comment, Error, Generic, String
from pygments.util import ClassNotFound

from argstream.sanitise import visible
from argstream.terminal._layout import expand_tabs, width
from argstream.terminal._text import Line, Role, Span, Spans, text_of

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token as MarkdownToken

Rule: TypeAlias = tuple[Callable[[str, int], re.Match[str] | None], Any, Any]
"""As Pygments has it: what matches, what is made of it, and the state that follows."""
# A language may be followed by anything but backticks: those would be code within a sentence.
_opening: Final = re.compile(r"\s*(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^`]*$").match
Token: TypeAlias = tuple[Any, str]  # a type of Pygments, and the text
_DELIMITERS: Final = {
    "/*": "*/",
    "<!--": "-->",
    "--[[": "]]",
    "{-": "-}",
    "(*": "*)",
    '"""': '"""',
    "'''": "'''",
}
_delimiter: Final = re.compile("|".join(map(re.escape, _DELIMITERS)))
_CODE: Final = Generic.Code  # in a sentence: Pygments has strings only
_MAX_STACK: Final = 200
_MAX_STEPS: Final = 10_000
_CHANCES: Final = 3  # for once, it may be the garbage collector that was slow
_slow: Final[Counter[type[Lexer]]] = Counter()  # how often each has been, as long as we live
# A rule can need time that grows with the square or the cube of a line's length, and no one can
# stop it. So what is too long for a person is not lexed, and a lexer has one chance.
_LONG_LINE: Final = 240
_LONGEST_FENCE: Final = 2000  # characters of a line
_SLOW: Final = 0.05  # seconds of work
_KINDS: Final[dict[Role, str]] = {
    "comment": "Comment",
    "keyword": "Keyword Comment.Preproc Operator.Word",
    "string": "Literal.String Comment.PreprocFile",
    "number": "Literal.Number Literal.Date",
    "builtin": "Keyword.Constant Keyword.Type Name.Attribute Name.Builtin Name.Exception",
    "name": "Name.Class Name.Decorator Name.Function Name.Tag",
    "operator": "Operator",
    "code": "Generic.Code",
    "removed": "Generic.Deleted",
    "added": "Generic.Inserted",
    "heading": "Generic.Heading Generic.Subheading",
    "strong": "Generic.Strong Generic.EmphStrong",
}
_ROLES: Final = {
    tuple(kind.split(".")): role for role, kinds in _KINDS.items() for kind in kinds.split()
}


# Lexes a text line by line: ``kind`` is the lexer of the next line, which ends with its newline.
LineLexer: TypeAlias = "_LineByLine | _Markdown"


class Highlighter:
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
            _slow[kind] += 1  # soon it is not used any more, for any text
        if is_slow or "".join(piece for piece, _ in pieces) != text:
            self._lexer = None
            return [(text, "plain")]
        return pieces


def source_spans(pieces: Iterable[tuple[str, Role]]) -> Spans:
    """Make the pieces of one line visible; tabs become spaces up to the next multiple of four."""
    spans: list[Span] = []
    column = 0
    for text, role in pieces:
        spans.append(Span(expand_tabs(visible(text), column), role))
        column += width(spans[-1].text)
    return tuple(spans)


def _pieces(tokens: Iterable[Token]) -> list[tuple[str, Role]]:
    """Join neighbours of the same role. The newline at the end is not shown."""
    bare = ((_role_of(token), text.removesuffix("\n")) for token, text in tokens)
    groups = groupby((piece for piece in bare if piece[1]), key=itemgetter(0))
    return [("".join(text for _, text in group), role) for role, group in groups]


@cache
def _role_of(token: tuple[str, ...]) -> Role:
    """Return the role of a type, or of the nearest type that it is a kind of."""
    names = tuple(token)
    while names and names not in _ROLES:
        names = names[:-1]
    return _ROLES.get(names, "plain")


def opened_by(line: str) -> tuple[str, str] | None:
    """Return the marks of the fence that a line outside of code is, and the language it names."""
    opening = _opening(line) if len(line) <= _LONGEST_FENCE else None
    return None if opening is None else (opening[1], opening[2])


def is_closed_by(line: str, marks: str) -> bool:
    """Return whether a line ends the code that such a fence has opened."""
    bare = line.strip()
    return bare.startswith(marks) and not bare.strip(marks[0])


def lexer_for(language: str | None, path: str | None) -> "LineLexer | None":
    found = None
    if language:
        with suppress(ClassNotFound):  # a name that a model made up
            found = find_lexer_class_by_name(language)
    if found is None and path:
        found = find_lexer_class_for_filename(path)
    if found is None or issubclass(found, TextLexer) or _slow[found] >= _CHANCES:
        return None
    lexer = found(stripnl=False, ensurenl=False)
    if lexer.name == "Markdown":  # its class takes long to import
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


class _ByContext(_LineByLine):
    """For lexers that keep their states in an object, which is passed from line to line."""

    def __init__(self, lexer: ExtendedRegexLexer) -> None:
        super().__init__(lexer)
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


class _ByRules(_LineByLine):
    def __init__(self, lexer: RegexLexer) -> None:
        super().__init__(lexer)
        self._rules = self.kind._tokens  # noqa: SLF001 - there is no other way to them
        self._stack = ["root"]
        self._inside: tuple[str, Any] | None = None  # the end and type of what spans lines

    def tokens(self, line: str) -> list[Token]:
        found: list[Token] = []
        position = self._end_of_begun(line, found)
        has_delimiter = _delimiter.search(line, position) is not None
        for _ in range(_MAX_STEPS):
            if position >= len(line):
                break
            if has_delimiter and (begun := self._multiline_start(line, position)):
                self._inside = begun
                found.append((begun[1], line[position:]))
                break
            position = self._step(line, position, found)
        else:
            raise RecursionError("the rules of this lexer go round in a circle")
        if len(self._stack) > _MAX_STACK:
            self._stack = ["root"]
        return found

    def _step(self, line: str, position: int, found: list[Token]) -> int:
        rule = _first(self._rules[self._stack[-1]], line, position)
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
        closing, token = self._inside
        end = line.find(closing)
        position = len(line) if end < 0 else end + len(closing)
        found.append((token, line[:position]))
        if end >= 0:
            self._inside = None
        return position

    def _multiline_start(self, line: str, position: int) -> tuple[str, Any] | None:
        """Return the end and token of a multi-line comment or string that starts here, if any."""
        opening = _delimiter.match(line, position)
        if opening is None or _DELIMITERS[opening[0]] in line[opening.end() :]:
            return None
        closing = _DELIMITERS[opening[0]]
        sample = f"{opening[0]} x\nx {closing}"
        rule = _first(self._rules[self._stack[-1]], sample, 0)
        if rule is None or rule[0].end() < len(sample) or callable(rule[1]):
            return None
        return (closing, rule[1]) if rule[1] in Comment or rule[1] in String else None


def _first(
    rules: Iterable[Rule], line: str, position: int
) -> tuple[re.Match[str], Any, Any] | None:
    """Return the match of the first rule that matches here, and what follows from it."""
    for match_here, action, new_state in rules:
        match = match_here(line, position)
        if match is not None:
            return match, action, new_state
    return None


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
            self._fence, language = fence
            self._code = lexer_for(language, None)
        elif is_closed_by(line, self._fence):
            self._fence = ""
            self._code = None
        elif self._code is not None:
            return self._code.tokens(line)
        return [(_CODE, line)]


# Markdown

_DEEPEST: Final = 12  # columns; a line that is deeper is shown no further to the right
_MOST_MARKED: Final = 4000  # characters; a longer line is shown as it is
_WIDEST: Final = 76  # columns of a table
_CLOSERS: Final = ("`", "``", "*", "**", "_", "__", "](x)", ">")
_is_delimiter: Final = re.compile(r" *\|?(?: *:?-+:? *\|)+(?: *:?-+:?)? *\|? *").fullmatch
_is_task: Final = re.compile(r"\[([ xX])\] ").match
_Pieces: TypeAlias = list[tuple[str, Role]]


class Markdown:
    """Renders the Markdown of a model, one complete line at a time; a table when it is complete.

    Each line is parsed by itself, so a mark that goes on in the next line is shown as it is
    written. Marks disappear, and nothing else: a link is followed by its target.
    """

    def __init__(self) -> None:
        self._fence = ""  # what opened the block of code that we are in
        self._highlighter = Highlighter()
        self._is_in_list = False
        self._is_after_blank = True
        self._table: list[str] = []  # its lines so far; one line may become the first of a table
        self._partial_line: Line | None = None  # of a line that is added in parts

    @property
    def held(self) -> list[Line]:
        """The lines of a table that is not complete."""
        return [Line(source_spans([(text, "plain")])) for text in self._table]

    def add(self, text: str, *, is_whole: bool) -> list[Line]:
        """Add a complete line, or a part of a long one, and return the lines that are final."""
        if self._partial_line is not None or not is_whole:
            lines = self.finish() if self._partial_line is None else []
            line = self.growing(text)
            self._partial_line, self._is_after_blank = None if is_whole else line, False
            return [*lines, line]
        if self._table and "|" in text and (len(self._table) > 1 or _is_delimiter(text)):
            self._table.append(text)
            return []
        lines = self.finish()
        if not self._fence and "|" in text and not opened_by(text):
            self._table = [text]
            return lines
        return lines + self._add(text)

    def finish(self) -> list[Line]:
        """Return the lines of a table, which is complete."""
        held, self._table = self._table, []
        table = _table_lines(held) if len(held) > 1 else []
        return table or [line for text in held for line in self._add(text)]

    def shown(self, text: str) -> str:
        """Return how a line that is not complete is shown."""
        return text_of(self.growing(text).spans)

    def growing(self, text: str) -> Line:
        """Return a line that is not complete, or the rest of a long one."""
        if (before := self._partial_line) is not None:
            role: Role = before.spans[-1].role if before.spans else "plain"
            role = role if role == "heading" else "plain"
            pieces = [(text, role)] if self._fence else _inline(text.rstrip(" "), role)
            rest = before.margin if before.rest is None else before.rest
            return Line(source_spans(pieces), rest, rest, before.breaks)
        if self._fence:
            return Line(source_spans([(text, "plain")]), _CODE_MARGIN, _CODE_MARGIN)
        return self._line(text)

    def is_final(self, text: str, after: str) -> bool:
        """Return whether text that follows cannot change how this beginning of a line is shown.

        ``after`` is the next character. A mark that follows no space depends on what is before it.
        """
        if len(text) > _LONGEST_FENCE:
            return True
        if not text[-1:].isspace() and not after.isalnum():
            return False
        if self._partial_line is None and self._may_be_fence(text):
            return False
        if self._fence:
            return True
        seen = self.shown(text)
        ends = (f"{text.rstrip()}x{closer}" for closer in _CLOSERS)
        return all(self.shown(end).startswith(seen) for end in ends)

    def _may_be_fence(self, text: str) -> bool:
        """Return whether a line that begins like this may begin or end a block of code."""
        bare = text.strip()
        if self._fence:
            return not bare.strip(self._fence[0])
        return not bare.strip("`") or not bare.strip("~") or opened_by(text) is not None

    def _add(self, text: str) -> list[Line]:
        if self._fence:
            if len(text) > _LONGEST_FENCE or not is_closed_by(text, self._fence):
                return [Line(self._highlighter.line(text), _CODE_MARGIN, _CODE_MARGIN)]
            self._fence = ""
            return []
        if fence := opened_by(text):
            self._fence, self._highlighter = fence[0], Highlighter(fence[1])
            return []
        line = self._line(text)
        is_blank = not text.strip()
        if not is_blank:
            is_item = len(line.margin) > 0 and line.margin[-1].role == "operator"
            is_deeper = self._is_in_list and text.startswith("  ")
            self._is_in_list = is_item or is_deeper
        self._is_after_blank = is_blank
        return [line]

    def _line(self, text: str) -> Line:
        body = text.strip(" \t\r")
        indent = width(expand_tabs(text)) - width(expand_tabs(text).lstrip(" "))
        if len(text) > _MOST_MARKED:
            return Line(source_spans([(text, "plain")]), breaks="words")
        if indent >= 4 and self._is_after_blank and not self._is_in_list:
            return Line(source_spans([(text, "code")]))
        margin = (Span(" " * min(indent, _DEEPEST)),) if self._is_in_list and indent else ()
        return _block_line(body, margin)


_CODE_MARGIN: Final[Spans] = (Span("  "),)


def _block_line(text: str, margin: Spans) -> Line:
    """Return one line of Markdown: its containers become the margin."""
    margins, rest = list(margin), list(margin)
    role: Role = "plain"
    pieces: _Pieces = [(text, "plain")]
    for token in _parsed(text):
        match token.type:
            case "blockquote_open":
                margins.append(Span("▎ ", "faint"))
                rest.append(Span("▎ ", "faint"))
            case "list_item_open":
                bullet = f"{token.info}{token.markup} " if token.info else "• "
                margins.append(Span(bullet, "operator"))
                rest.append(Span(" " * len(bullet)))
                pieces = []
            case "heading_open":
                role = "heading"
                pieces = []
            case "hr":
                pieces = [("─" * 24, "faint")]
            case "inline":
                pieces = _spans_of(token.children or (), role)
            case "fence" | "code_block":
                pieces = [(token.content.rstrip("\n") or text, "code")]
    if pieces and margins and margins[-1].role == "operator" and (task := _is_task(pieces[0][0])):
        box = "☐ " if task[1] == " " else "☑ "
        pieces[0] = (box + pieces[0][0][task.end() :], pieces[0][1])
    return Line(source_spans(pieces), tuple(margins), tuple(rest), "words")


def _inline(text: str, role: Role) -> _Pieces:
    tokens = [token for token in _parsed(text, is_inline=True) if token.type == "inline"]
    return _spans_of(tokens[0].children or (), role) if tokens else [(text, role)]


def _spans_of(tokens: "Iterable[MarkdownToken]", role: Role) -> _Pieces:
    pieces: _Pieces = []
    roles: list[Role] = [role]
    links: list[tuple[str, int]] = []  # targets, and how many pieces were before them
    for token in tokens:
        match token.type:
            case "strong_open":
                roles.append("strong")
            case "em_open":
                roles.append("strong" if "strong" in roles else "emphasis")
            case "link_open":
                links.append((str(token.attrs.get("href", "")), len(pieces)))
                roles.append("link")
            case "link_close":
                roles.pop()
                target, start = links.pop()
                if "".join(text for text, _ in pieces[start:]) != target.removeprefix("mailto:"):
                    pieces.append((f" ({target})", "faint"))
            case "strong_close" | "em_close":
                roles.pop()
            case "image":
                pieces.append((f"{token.content} ({token.attrs.get('src', '')})", "faint"))
            case "code_inline":
                pieces.append((token.content, role if role == "heading" else "code"))
            case "softbreak" | "hardbreak":
                pieces.append((" ", role))
            case _:
                pieces.append((token.content, role if role == "heading" else roles[-1]))
    return [(text.replace("\n", " "), role) for text, role in pieces if text]


def _table_lines(rows: Sequence[str]) -> list[Line]:
    """Return the lines of a table; nothing if it is none, or too wide."""
    cells: list[list[Spans]] = []
    is_right: list[bool] = []
    for token in _parsed("\n".join(row.strip() for row in rows)):
        if token.type == "tr_open":
            cells.append([])
        elif token.type == "th_open":
            is_right.append(str(token.attrs.get("style", "")) == "text-align:right")
        elif token.type == "inline" and cells:
            role: Role = "strong" if len(cells) == 1 else "plain"
            cells[-1].append(source_spans(_spans_of(token.children or (), role)))
    widths = [max(width(text_of(cell)) for cell in column) for column in zip(*cells, strict=False)]
    if not cells or sum(widths) + 3 * len(widths) > _WIDEST:
        return []
    lines = [Line(tuple(_row(row, widths, is_right))) for row in cells]
    rule = Span("─┼─".join("─" * columns for columns in widths), "faint")
    return [lines[0], Line((rule,)), *lines[1:]]


def _row(cells: Sequence[Spans], widths: Sequence[int], is_right: Sequence[bool]) -> Iterator[Span]:
    for index, (cell, columns, right) in enumerate(zip(cells, widths, is_right, strict=False)):
        if index:
            yield Span(" │ ", "faint")
        blank = Span(" " * (columns - width(text_of(cell))))
        yield from (blank, *cell) if right else (*cell, blank)


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # it takes 40 ms, and only texts need it

    return MarkdownIt("commonmark", {"html": False}).enable("table")


def _parsed(text: str, *, is_inline: bool = False) -> "list[MarkdownToken]":
    """Parse Markdown. HTML is text. What cannot be parsed has no tokens."""
    try:
        return _parser().parseInline(text) if is_inline else _parser().parse(text)
    except Exception:  # noqa: BLE001 - a model wrote the text, which must be shown in any case
        return []
