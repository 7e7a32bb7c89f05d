"""How one would judge a call while it is written without argstream: all of it again, each time.

Neither way can tell what is wrong from what is not finished: jsonschema-rs refuses every beginning
that still lacks something, and pydantic lets the last thing in it pass, whatever it is. They are
here for what they cost.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal

import jsonschema_rs
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from argstream.jsonstream import Parser
from argstream.judging import CallJudge
from argstream.validation import Schema
from checks import ROWS, SCHEMAS, STRING
from readers import ARGSTREAM, Peer, Reparser

REVALIDATED = "jsonschema-rs, after each chunk"
PARTIAL = "pydantic, after each chunk"
PEERS = {
    REVALIDATED: "`Validator.is_valid` of the value so far, which argstream's parser gives it.",
    PARTIAL: (
        "`TypeAdapter.validate_json` with `experimental_allow_partial=True`, of the text so far."
    ),
}


class _WriteFile(TypedDict, total=False):
    path: str
    mode: Literal["create", "overwrite", "append"]
    executable: bool
    encoding: Literal["utf-8", "latin-1", "ascii"]
    content: str


class _Row(TypedDict, total=False):
    id: int
    name: str
    score: float
    active: bool
    tags: list[Literal["new", "eu", "paid", "trial", "beta"]]


class _InsertRows(TypedDict, total=False):
    table: str
    on_conflict: Literal["fail", "skip", "replace"]
    dry_run: bool
    batch: int
    rows: list[_Row]


_TYPES: dict[str, Any] = {STRING: _WriteFile, ROWS: _InsertRows}


class _Judged:
    """argstream: parses, and judges what the parser says."""

    def __init__(self, open_: Callable[[], CallJudge]) -> None:
        self._parser = Parser(unique_keys=True)
        self._judge = open_()

    @property
    def value(self) -> object:
        """The value so far."""
        return self._parser.value

    def pull(self, chunks: Iterable[str]) -> None:
        """Read everything: who has both at hand needs no method around them."""
        parse, judge = self._parser.feed, self._judge.feed
        for chunk in chunks:
            judge(parse(chunk))


class _Revalidator:
    """Judges the whole value so far with each chunk."""

    def __init__(self, validator: jsonschema_rs.Draft202012Validator) -> None:
        self._parser = Parser(unique_keys=True)
        self._validator = validator

    @property
    def value(self) -> object:
        """The value so far."""
        return self._parser.value

    def feed(self, chunk: str) -> None:
        """Parse it, then judge everything."""
        self._parser.feed(chunk)
        self._validator.is_valid(self._parser.value)

    def skip(self, text: str) -> None:
        """Parse only."""
        self._parser.feed(text)


def judging_peers(text: str) -> list[Peer]:
    """Give argstream and the others, for the schema of this text."""
    schema = SCHEMAS[text]
    validator = jsonschema_rs.Draft202012Validator(schema)
    validate = partial(TypeAdapter(_TYPES[text]).validate_json, experimental_allow_partial=True)
    return [
        Peer(ARGSTREAM.name, partial(_Judged, Schema(schema).check), ARGSTREAM.package, ""),
        Peer(REVALIDATED, partial(_Revalidator, validator), "jsonschema-rs", PEERS[REVALIDATED]),
        Peer(PARTIAL, partial(Reparser, validate), "pydantic", PEERS[PARTIAL]),
    ]
