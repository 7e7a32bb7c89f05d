"""What is to be shown, before it is known how wide the screen is: pieces of text with a role.

A role says what a text is, such as ``added`` or ``keyword``; the palette knows how that looks. Text
in a span has no newline and no tab. What a model wrote is made harmless before it gets here, once:
by ``shown``, or where its tabs and newlines matter (invariant 13).
"""

from typing import Literal, NamedTuple, TypeAlias

from argstream.sanitise import visible_line

__all__ = ["Breaks", "Line", "Role", "Span", "Spans", "line", "shown", "text_of"]

Role: TypeAlias = Literal[
    "plain",
    "faint",  # margins, counters, what only explains
    "strong",
    "tool",  # the name of a tool
    "title",  # the argument that stands beside it
    "argument",  # the name of an argument
    "good",
    "bad",
    "warning",
    "thought",
    "prompt",  # what a person said, or is asked
    "key",  # one that can be pressed
    "added",
    "removed",
    "place",  # where in a file
    # of source code
    "keyword",
    "string",
    "number",
    "comment",
    "name",  # of what is defined: a function, a class, a tag
    "builtin",
    "operator",
    "heading",
    "code",  # in a sentence
]


class Span(NamedTuple):
    """A piece of a line."""

    text: str
    role: Role = "plain"


Spans: TypeAlias = tuple[Span, ...]

Breaks: TypeAlias = Literal["words", "anywhere"]
"""Where a line may be broken that is too long: prose at words, code anywhere."""


class Line(NamedTuple):
    """A line of text, which may take several rows of a screen."""

    spans: Spans
    margin: Spans = ()
    """Before its first row."""
    rest: Spans | None = None
    """Before its other rows; None is the margin's width in spaces."""
    breaks: Breaks = "anywhere"


def shown(text: str, role: Role = "plain") -> Span:
    """Give something that a model, a tool or a file said, made visible, as one piece."""
    return Span(visible_line(text), role)


def line(*pieces: Span | str, margin: Spans = (), breaks: Breaks = "words") -> Line:
    """Give a line of ours: a plain string is our own text."""
    spans = tuple(Span(piece) if isinstance(piece, str) else piece for piece in pieces)
    return Line(spans, margin, None, breaks)


def text_of(spans: Spans) -> str:
    """Give the bare text."""
    return "".join(span.text for span in spans)
