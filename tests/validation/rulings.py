"""Compile schemas and judge texts by them, in time; and what jsonschema-rs says of the values."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import jsonschema_rs

from argstream.errors import SchemaError
from argstream.events import ArgumentsError
from argstream.jsonstream import Fragment, Parser
from argstream.testing import cut
from argstream.validation import Schema

JsonSchema = dict[str, Any] | bool


class Ruling(NamedTuple):
    """What became of one text."""

    verdict: str
    error: ArgumentsError | None
    seen: int | None
    """How many fragments it took to refuse; None if it was not."""
    text: str | None
    """Of the fragment that decided, if it is a ``Text``: up to the character that decided."""

    @property
    def said(self) -> tuple[str, ArgumentsError | None]:
        """What does not depend on the chunking."""
        return self.verdict, self.error


def oracle(
    schema: JsonSchema, *, formats: bool = False, resources: Mapping[str, Any] | None = None
) -> jsonschema_rs.Validator:
    """Return the judge of whole values, made without any code of ours."""
    registry = jsonschema_rs.Registry(list((resources or {}).items()))
    return jsonschema_rs.validator_for(
        schema, validate_formats=formats, offline=True, registry=registry
    )


def batches(chunks: Iterable[str | bytes]) -> Iterator[list[Fragment]]:
    """Yield what each chunk says, and what the end says."""
    parser = Parser(unique_keys=True)
    for chunk in chunks:
        yield parser.feed(chunk)
    yield parser.close()


def judge(schema: Schema, chunks: Iterable[str | bytes]) -> Ruling:
    """Feed all chunks, also those after a refusal, which must change nothing."""
    return judge_fragments(schema, batches(chunks))


def judge_fragments(schema: Schema, said: Iterable[Sequence[Fragment]]) -> Ruling:
    check = schema.check()
    taken = 0
    seen = text = error = None
    for fragments in said:
        refusal = check.feed(fragments)
        if refusal is not None and seen is None:
            assert 1 <= refusal.seen <= len(fragments)
            seen, text, error = taken + refusal.seen, refusal.text, refusal.error
        assert (check.verdict == "rejected") == (seen is not None)
        assert check.error == error
        taken += len(fragments)
    return Ruling(check.verdict, error, seen, text)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Assert that it takes no longer; of this process, so that a busy machine does not matter."""
    start = time.process_time()
    yield
    assert time.process_time() - start < seconds


def compiled(schema: Any, **options: Any) -> Schema | SchemaError:
    """Return what compiling gives; anything but these two is raised."""
    with within(1):
        try:
            return Schema(schema, **options)
        except SchemaError as error:
            return error


def refused_or_judged(schema: Any, text: str, expected: str | None = None) -> Schema | SchemaError:
    """Assert that the schema is refused, or the text gets the verdict that it must, in time."""
    outcome = compiled(schema)
    if isinstance(outcome, Schema):
        for chunks in ([text], cut(text, [1])):
            with within(1):
                verdict = judge(outcome, chunks).verdict
            assert verdict == expected if expected else verdict in ("valid", "rejected")
    else:
        assert outcome.reason not in ("", "invalid")
        assert outcome.pointer.startswith("#")
    return outcome
