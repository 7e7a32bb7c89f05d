"""The text of a call's arguments: fresh parses of it, and whether it is what they are.

Whoever shows, approves or runs arguments has values of his own, made of the text (invariant 12).
"""

from argstream.assembly import Call
from argstream.jsonstream import Parser

__all__ = ["is_as_streamed", "parsed_anew"]


def is_as_streamed(call: Call) -> bool:
    """Say whether the arguments are what the text said while it came."""
    return call.reinterpreted in (None, "split_name")


def parsed_anew(text: str, *, is_whole: bool = True) -> Parser:
    """Parse a text once more, by the same rules as when it was streamed.

    These are not those of ``json.loads`` (invariant 4).
    """
    parser = Parser(unique_keys=True)
    parser.feed(text)
    if is_whole:
        parser.close()
    return parser
