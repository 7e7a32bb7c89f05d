"""Check texts against schemas, with time limits. The oracle is jsonschema-rs."""

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


class Outcome(NamedTuple):
    verdict: str
    error: ArgumentsError | None
    seen: int | None  # how many fragments were read at the rejection
    text: str | None  # of the last of them, if it is a Text: up to the rejected character

    @property
    def stable(self) -> tuple[str, ArgumentsError | None]:
        """The part that must not depend on the chunking."""
        return self.verdict, self.error


def oracle(
    schema: JsonSchema, *, formats: bool = False, resources: Mapping[str, Any] | None = None
) -> jsonschema_rs.Validator:
    """Return a validator of complete values that shares no code with ours."""
    registry = jsonschema_rs.Registry(list((resources or {}).items()))
    return jsonschema_rs.validator_for(
        schema, validate_formats=formats, offline=True, registry=registry
    )


def batches(chunks: Iterable[str | bytes]) -> Iterator[list[Fragment]]:
    parser = Parser(unique_keys=True)
    for chunk in chunks:
        yield parser.feed(chunk)
    yield parser.close()


def check_text(schema: Schema, chunks: Iterable[str | bytes]) -> Outcome:
    """Feed all chunks, also those after a rejection, which must change nothing."""
    return check_fragments(schema, batches(chunks))


def check_fragments(schema: Schema, fed: Iterable[Sequence[Fragment]]) -> Outcome:
    check = schema.check()
    taken = 0
    seen = text = error = None
    for fragments in fed:
        refusal = check.feed(fragments)
        if refusal is not None and seen is None:
            assert 1 <= refusal.seen <= len(fragments)
            seen, text, error = taken + refusal.seen, refusal.text, refusal.error
        assert (check.verdict == "rejected") == (seen is not None)
        assert check.error == error
        taken += len(fragments)
    return Outcome(check.verdict, error, seen, text)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    start = time.process_time()
    yield
    assert time.process_time() - start < seconds


def compiled(schema: Any, **options: Any) -> Schema | SchemaError:
    with within(1):
        try:
            return Schema(schema, **options)
        except SchemaError as error:
            return error


def refusal_of(schema: Any) -> SchemaError:
    outcome = compiled(schema)
    assert isinstance(outcome, SchemaError), schema
    return outcome


def refused_or_checked(
    schema: Any, text: str, expected: str | None = None, **options: Any
) -> Schema | SchemaError:
    """Assert that the schema is refused, or that the text gets its verdict in time."""
    outcome = compiled(schema, **options)
    if isinstance(outcome, Schema):
        for chunks in ([text], cut(text, [1])):
            with within(1):
                verdict = check_text(outcome, chunks).verdict
            assert verdict == expected if expected else verdict in ("valid", "rejected")
    else:
        assert outcome.reason not in ("", "invalid")
        assert outcome.pointer.startswith("#")
    return outcome
