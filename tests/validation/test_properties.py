"""Random schema × instance × chunking: a check is sound, final and independent of chunking."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.testing import cut
from argstream.validation import Schema
from tests.strategies import cuts
from tests.validation.checking import batches, check_fragments, check_text, oracle
from tests.validation.schemas import instances, schemas, steady
from tests.validation.universes import Reading, Universe, arrays, objects, strings

_LEAVES = ["1", '"a"', "null", "[]", "{}"]
_UNIVERSE = Universe(
    [
        *strings(["a", "b", "é😀"], 3),
        *("0", "1", "1.0", "2", "3", "-1", "1.5", "15", "0.1", "true", "false", "null"),
        *arrays([*_LEAVES, '"ab"', "1.5"], 2),
        *arrays(["1", '"b"'], 4),
        *objects(["a", "b", "ab"], _LEAVES, 2),
        *objects(["é😀", "a"], ["1", '"é😀"'], 2),
        *objects(["a", "b", "ab", ""], ["1"], 4),
        *objects(["a"], [*objects(["a", "b"], ["1", '"a"'], 2), *arrays(["1", '"a"'], 2)], 1),
    ]
)
readings = st.lists(st.sampled_from(_UNIVERSE.readings), min_size=15, max_size=15)

texts = st.builds(
    lambda instance, ascii_only, indent: json.dumps(
        instance, ensure_ascii=ascii_only, indent=indent
    ),
    instances,
    st.booleans(),
    st.sampled_from([None, 1]),
)


@pytest.mark.bulk
@given(schemas(), texts)
@steady
def test_verdict_equals_jsonschema_rs(schema: Any, text: str) -> None:
    outcome = check_text(Schema(schema), cut(text, [1]))
    valid = oracle(schema).is_valid(json.loads(text))
    assert outcome.verdict == ("valid" if valid else "rejected")


@pytest.mark.bulk
@given(schemas(), readings)
@steady
def test_no_text_with_a_rejected_prefix_is_valid(schema: Any, some: list[Reading]) -> None:
    compiled = Schema(schema)
    alive = _UNIVERSE.alive(oracle(schema))
    for reading in some:
        outcome = check_fragments(compiled, reading.batches)
        assert outcome.verdict == ("valid" if reading.prefixes[-1] in alive else "rejected")
        if outcome.seen is not None:
            assert reading.prefixes[outcome.seen - 1] not in alive, (reading.text, outcome.error)


@given(schemas(), texts, cuts)
@steady
def test_chunking_changes_nothing(schema: Any, text: str, sizes: list[int]) -> None:
    compiled = Schema(schema)
    expected = check_text(compiled, [text]).stable
    for chunks in (cut(text, [1]), cut(text, sizes), cut(text.encode(), sizes)):
        assert check_text(compiled, chunks).stable == expected


@given(schemas(), texts, texts)
@steady
def test_text_after_a_rejection_changes_nothing(schema: Any, text: str, other: str) -> None:
    check = Schema(schema).check()
    for fragments in batches(cut(text, [1])):
        check.feed(fragments)
    before = (check.verdict, check.error)
    if check.verdict == "rejected":
        for fragments in batches([other]):
            check.feed(fragments)
        assert (check.verdict, check.error) == before


@given(schemas(), instances.filter(lambda value: isinstance(value, dict)), instances)
@steady
def test_finish_keeps_the_verdict_or_checks_reinterpreted_arguments(
    schema: Any, instance: Any, other: Any
) -> None:
    compiled = Schema(schema)
    validator = oracle(schema)
    check = compiled.check()
    for fragments in batches([json.dumps(instance)]):
        check.feed(fragments)
    before = check.error
    error = check.finish(instance, as_read=True)
    assert (error is None) == (check.verdict == "valid") == validator.is_valid(instance)
    assert error == check.error == before
    if isinstance(other, dict):
        for one in (compiled.check(), check):
            assert (one.finish(other, as_read=False) is None) == validator.is_valid(other)
