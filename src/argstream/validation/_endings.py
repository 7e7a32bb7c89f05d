"""Where a string or a whole value stops to fit: what both ways of judging have in common."""

from argstream.jsonstream import Done, Kind, Text
from argstream.validation._nodes import Candidates, Node
from argstream.validation._wording import Failure

__all__ = ["end", "leaving", "text_failure"]


def leaving(candidates: Candidates, low: int, high: int, before: int, text: str) -> tuple[int, int]:
    """Find the character that leaves them all, one by one: it happens once.

    Gives a candidate that the string began like, and how many characters of the text are good.
    """
    good, began_like = 0, low
    while low < high:
        began_like = low
        low, high = candidates.narrow(low, high, before + good, text[good])
        good += 1
    return began_like, good - 1


def text_failure(
    node: Node, began_like: int, fragment: Text, lengths: tuple[int, int], offset: int
) -> Failure:
    """Say why a piece of a string does not fit."""
    path, text = fragment
    before, good = lengths
    if node.candidates is None:
        return Failure("maxLength", path, offset, node, limit=node.max_length)
    strings = node.candidates.strings
    known = strings[began_like][:before] if strings else ""
    return Failure("candidates", path, offset, node, known + text[: good + 1], limit=True)


def end(node: Node, kind: Kind, fragment: Done) -> Failure | None:
    """Judge a value that is done."""
    path, value, offset = fragment
    if kind == "object":
        assert isinstance(value, dict)  # noqa: S101 - for the type checker: that is its kind
        if not node.required <= value.keys():
            missing = [name for name in node.required_names if name not in value]
            return Failure("required", path, offset, node, missing)
    elif kind == "string":
        if node.candidates is not None and value not in node.candidates.all:
            return Failure("candidates", path, offset, node, value)
    elif (
        kind == "number" and node.is_integer and isinstance(value, float) and not value.is_integer()
    ):
        return Failure("integer", path, offset, node, value)
    for late in node.late[kind]:
        if late.refuses(value):
            keyword = late.blamed(value)
            if keyword in ("enum", "const") and node.values:
                return Failure("candidates", path, offset, node, value)
            return Failure(keyword, path, offset, node, value, late.subschema.keywords.get(keyword))
    return None
