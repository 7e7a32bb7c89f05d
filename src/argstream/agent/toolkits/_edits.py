"""Edits of a text: each names what is there, exactly and once, and what comes in its place."""

from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from argstream.agent.toolkits._texts import FileText, lines_of
from argstream.errors import ToolFailure

__all__ = ["Edit", "NotThere", "edited"]

_MOST_PLACES: Final = 20  # that are told of a text which occurs too often
_LONGEST: Final = 120  # characters of a line, in an error
_MOST_GUESSES: Final = 20  # places that may have been meant


class Edit(BaseModel):
    """One replacement in a file."""

    model_config = ConfigDict(extra="forbid")

    old: str = Field(
        min_length=1,
        description="The text to replace, exactly as in the file, with its indentation. It must "
        "occur exactly once: take in lines around it if need be.",
    )
    new: str = Field(description="The text that comes in its place; empty to delete.")


class NotThere(Exception):  # noqa: N818 - it says what is the case
    """What is to be replaced does not occur. To say what may have been meant takes a while."""

    def __init__(self, text: str, old: str, subject: str) -> None:
        super().__init__(f"{subject} does not occur")
        self._text = text
        self._old = old

    def failure(self) -> ToolFailure:
        """Give what a model is told."""
        return ToolFailure(f"{self}{_hint(self._text, self._old)}. Nothing was changed")


def edited(file: FileText, edits: list[Edit], path: str) -> bytes:
    """Make all edits. Raises ToolFailure or NotThere if one cannot be made: then none is.

    All of them look at the text as it was, so their order does not matter.
    """
    replacements: list[tuple[int, int, str]] = []
    for number, edit in enumerate(edits, 1):
        subject = "old" if len(edits) == 1 else f"old of edit {number}"
        start, end = _found(file.text, _with_lf(edit.old), f"{subject} in {path}")
        replacements.append((start, end, _with_lf(edit.new)))
    replacements.sort()
    for (_, end, _), (start, _, _) in pairwise(replacements):
        if start < end:
            raise ToolFailure(
                f"two edits of {path} overlap, around line {_line(file.text, start)}: make one of "
                "them. Nothing was changed"
            )
    if all(file.text[start:end] == new for start, end, new in replacements):
        raise ToolFailure(f"old and new are the same: {path} was not changed")
    return file.encoded(replacements)


def _found(text: str, old: str, subject: str) -> tuple[int, int]:
    places = list(islice(_places(text, old), _MOST_PLACES + 1))
    if len(places) == 1:
        return places[0], places[0] + len(old)
    if not places:
        raise NotThere(text, old, subject)
    often = str(len(places)) if len(places) <= _MOST_PLACES else f"more than {_MOST_PLACES}"
    lines = ", ".join(str(_line(text, place)) for place in places[:_MOST_PLACES])
    raise ToolFailure(
        f"{subject} occurs {often} times, in lines {lines}: take in lines around it, so that it "
        "occurs once. Nothing was changed"
    )


def _places(text: str, old: str) -> Iterator[int]:
    place = text.find(old)
    while place >= 0:
        yield place
        place = text.find(old, place + 1)


def _hint(text: str, old: str) -> str:
    """Say what may have been meant: where lines begin to differ, maybe in white space alone."""
    wanted = lines_of(old.lstrip("\n"))
    there = lines_of(text)
    first = "".join(wanted[0].split()) if wanted else ""
    guesses = (
        number for number, line in enumerate(there) if first and "".join(line.split()) == first
    )
    for guess in islice(guesses, _MOST_GUESSES):
        for number in range(guess, min(guess + len(wanted), len(there))):
            has, wants = there[number], wanted[number - guess]
            if has != wants:
                told = f"{has[:_LONGEST]!r}, not {wants[:_LONGEST]!r}"
                return f": line {number + 1} is {told}"
    return ": read the file again, and copy from it exactly"


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _with_lf(text: str) -> str:
    return text.replace("\r\n", "\n")
