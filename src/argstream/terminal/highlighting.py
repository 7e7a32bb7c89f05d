"""Source code in colours, one completed line at a time.

A line costs a tenth of a millisecond, however many came before it. Colours are not worth a failure
or a wait: a lexer that raises or is slow is not asked again, and lines that no person wrote are
shown as they are.

What is lexed is the raw text, for what makes it visible would be no code; each token is made
visible after that.
"""

from collections.abc import Iterable
from time import thread_time
from typing import Any, Final

from argstream.sanitise import visible
from argstream.terminal._lexing import Token, give_up, lexer_for
from argstream.terminal.spans import Role, Span, Spans
from argstream.terminal.widths import expand_tabs, width

__all__ = ["Highlighter", "source_spans"]

# A rule can need time that grows with the square or the cube of a line's length, and nobody can
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
    """Join neighbours of the same role; the newline at the end is not shown."""
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
    """Look for the role of a type, or of the nearest that it is a kind of."""
    names = tuple(token)
    while names and names not in _ROLES:
        names = names[:-1]
    return _role_of_type.setdefault(token, _ROLES[names] if names else "plain")
