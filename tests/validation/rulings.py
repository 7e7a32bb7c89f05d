"""Run texts through the parser and a check; and what jsonschema-rs says of the same values."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jsonschema_rs

from argstream.events import ArgumentsError
from argstream.jsonstream import Fragment, Parser
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
