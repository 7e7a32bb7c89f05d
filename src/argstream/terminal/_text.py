"""What is to be shown, before it is known how wide the screen is: pieces of text with a role.

A role says what a text is, such as ``added`` or ``keyword``; the palette knows how that looks. Text
in a span has no newline and no tab. What a model wrote is made harmless before it gets here, once:
by ``shown``, or where its tabs and newlines matter (invariant 13).
"""

import re
from math import floor, log10
from typing import Final, Literal, NamedTuple, TypeAlias

from argstream.events import Usage
from argstream.jsonstream import JsonPath
from argstream.sanitise import visible_line

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
    # of a text
    "heading",
    "emphasis",
    "link",
    "code",  # in a sentence
]


class Span(NamedTuple):
    """A piece of a line."""

    text: str
    role: Role = "plain"


Spans: TypeAlias = tuple[Span, ...]

Breaks: TypeAlias = Literal["words", "spaces"]
"""Where a line may be broken that is too long: prose at words, code at spaces, and none is lost."""


class Line(NamedTuple):
    """A line of text, which may take several rows of a screen."""

    spans: Spans
    margin: Spans = ()
    """Before its first row."""
    rest: Spans | None = None
    """Before its other rows; None is the margin's width in spaces."""
    breaks: Breaks = "spaces"
    fold: int = 0
    """If not 0, it belongs to a long text, of which so many lines are shown at its beginning."""


def shown(text: str, role: Role = "plain") -> Span:
    """Return text of a model, a tool or a file as one visible piece."""
    return Span(visible_line(text), role)


def line(*pieces: Span | str, margin: Spans = (), breaks: Breaks = "words") -> Line:
    """Return a line of ours. A plain string is our own text."""
    spans = tuple(Span(piece) if isinstance(piece, str) else piece for piece in pieces)
    return Line(spans, margin, None, breaks)


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def text_of(spans: Spans) -> str:
    return "".join(span.text for span in spans)


_SIZES: Final = ((1, "B"), (1000, "kB"), (1_000_000, "MB"))
_is_plain_name: Final = re.compile(r"[\w-]+").fullmatch


def count(number: int, thing: str) -> str:
    """Return a number with a noun.

    >>> count(1, "call"), count(3, "call")
    ('1 call', '3 calls')
    """
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def size(number: int) -> str:
    """Return a number of bytes in words.

    >>> size(312), size(48_250), size(250_000_000)
    ('312 B', '48.2 kB', '250.0 MB')
    """
    if number < 1000:
        return f"{number} B"
    return f"{number / 1e3:.1f} kB" if number < 999_950 else f"{number / 1e6:.1f} MB"


def token_counts(usage: Usage) -> str:
    """Return the input and output tokens as text, without counts that are unknown.

    >>> token_counts(Usage(7, 5)), token_counts(Usage(output_tokens=5)), token_counts(Usage())
    ('7 in / 5 out tokens', '5 out tokens', '')
    """
    counts = ((usage.input_tokens, "in"), (usage.output_tokens, "out"))
    told = " / ".join(f"{count} {what}" for count, what in counts if count is not None)
    return f"{told} tokens" if told else ""


def duration(seconds: float) -> str:
    """Return a duration in words.

    >>> [duration(seconds) for seconds in (0, 0.0004, 0.0312, 0.5, 59.97, 75, 4000, 200_000)]
    ['0 ms', '0.4 ms', '31 ms', '0.5 s', '1 min 0 s', '1 min 15 s', '1 h 6 min', '2 d 7 h']
    """
    seconds = max(seconds, 0)
    if seconds < 0.0995:
        milliseconds = seconds * 1000
        return f"{milliseconds:.1f} ms" if 0.05 <= milliseconds < 0.95 else f"{milliseconds:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def amount(value: float, unit: Literal["seconds", "bytes"]) -> str:
    return duration(value) if unit == "seconds" else size(round(value))


def axis_label(value: float, step: float, largest: float, unit: Literal["seconds", "bytes"]) -> str:
    """Return a label of an axis in the unit that suits its largest value.

    >>> axis_label(0.25, 0.05, 0.5, "seconds"), axis_label(90, 30, 120, "seconds")
    ('0.25 s', '1:30')
    """

    def decimals(step: float) -> int:
        return max(0, -floor(log10(step))) if step else 1

    if unit == "bytes":
        divisor, name = _SIZES[(largest >= 10_000) + (largest >= 10_000_000)]
        return f"{value / divisor:.{decimals(step / divisor)}f} {name}"
    if largest < 0.2:
        return f"{value * 1000:.{decimals(step * 1000)}f} ms"
    places = decimals(step)
    if largest < 120:
        return f"{value:.{places}f} s"
    minutes, seconds = divmod(round(value, places), 60)
    hours, minutes = divmod(int(minutes), 60)
    tail = f"{seconds:0{places + 3 if places else 2}.{places}f}"
    return f"{hours}:{minutes:02}:{tail}" if hours else f"{minutes}:{tail}"


def path_name(path: JsonPath) -> str:
    """Return a path, made visible. A name that could be misread is quoted.

    >>> path_name(("edits", 2, "old")), path_name(("a.b", "c"))
    ('edits[2].old', '["a.b"].c')
    """
    steps = (
        f".{step}"
        if isinstance(step, str) and _is_plain_name(step)
        else f"[{quoted(step) if isinstance(step, str) else step}]"
        for step in path
    )
    return visible_line("".join(steps).removeprefix("."))


def quoted(text: str) -> str:
    r"""Return a text in quotes. What is invisible is left to ``shown``.

    >>> print(quoted('say "yes"'))
    "say \"yes\""
    """
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def harmless(text: str) -> str:
    """Escape what would act or hide. Applied twice, it changes nothing more.

    Unlike ``visible_line`` it keeps the opening bracket, since the text should be visible already.
    """
    if text.isascii() and text.isprintable():
        return text
    return "⟦".join(map(visible_line, text.split("⟦")))
