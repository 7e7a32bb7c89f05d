"""Random schema × instance × chunking: a check is sound, final, and does not mind the chunking."""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.jsonstream import Fragment, Text
from argstream.testing import cut
from argstream.validation import Schema
from tests.strategies import cuts
from tests.validation.continuations import continuation
from tests.validation.rulings import Ruling, batches, judge, judge_fragments, oracle
from tests.validation.schemas import instances, schemas, steady
from tests.validation.universes import Reading, Universe, arrays, objects, strings

_LEAVES = ["1", '"a"', "null", "[]", "{}"]
_UNIVERSE = Universe(
    [
        *strings(["a", "b"], 3),
        *("0", "1", "1.0", "2", "3", "-1", "1.5", "15", "0.1", "true", "false", "null"),
        *arrays([*_LEAVES, '"ab"', "1.5"], 2),
        *arrays(["1", '"b"'], 4),
        *objects(["a", "b", "ab"], _LEAVES, 2),
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


def _said(text: str, ruling: Ruling) -> list[Fragment]:
    """Return the fragments that decided, up to the very character."""
    assert ruling.seen is not None
    fragments = [fragment for said in batches(cut(text, [1])) for fragment in said]
    fragments = fragments[: ruling.seen]
    last = fragments[-1]
    if isinstance(last, Text) and ruling.text is not None:
        fragments[-1] = Text(last.path, ruling.text)
    return fragments


@given(texts, st.integers(0, 100), st.integers())
@steady
def test_a_continuation_begins_as_it_must(text: str, place: int, seed: int) -> None:
    """A test of the tests: what goes on from some fragments has them all."""
    (reading,) = Universe([text]).readings
    fragments = reading.fragments[: place % (len(reading.fragments) + 1)]
    value = continuation(fragments, Random(seed))
    other = Universe([text, json.dumps(value, ensure_ascii=False)]).readings[-1]
    assert other.beginnings[: len(fragments)] == reading.beginnings[: len(fragments)]


@pytest.mark.bulk
@given(schemas(), texts, st.integers())
@steady
def test_the_final_verdict_is_the_one_of_jsonschema_rs_and_no_continuation_contradicts_it(
    schema: Any, text: str, seed: int
) -> None:
    validator = oracle(schema)
    ruling = judge(Schema(schema), cut(text, [1]))
    assert ruling.verdict == ("valid" if validator.is_valid(json.loads(text)) else "rejected")
    if ruling.seen is not None:
        fragments = _said(text, ruling)
        random = Random(seed)
        for _ in range(15):
            value = continuation(fragments, random)
            assert not validator.is_valid(value), (ruling.error, value)


@pytest.mark.bulk
@given(schemas(), readings)
@steady
def test_no_text_that_begins_like_a_refused_one_is_valid(schema: Any, some: list[Reading]) -> None:
    compiled = Schema(schema)
    validator = oracle(schema)
    alive = _UNIVERSE.alive(validator)
    for reading in some:
        ruling = judge_fragments(compiled, reading.said)
        assert ruling.verdict == ("valid" if reading.beginnings[-1] in alive else "rejected")
        if ruling.seen is not None:
            assert reading.beginnings[ruling.seen - 1] not in alive, (reading.text, ruling.error)


@given(schemas(), texts, cuts)
@steady
def test_chunking_changes_nothing(schema: Any, text: str, sizes: list[int]) -> None:
    compiled = Schema(schema)
    expected = judge(compiled, [text]).said
    assert judge(compiled, cut(text, [1])).said == expected
    assert judge(compiled, cut(text, sizes)).said == expected
    assert judge(compiled, cut(text.encode(), sizes)).said == expected


@given(schemas(), texts, texts)
@steady
def test_text_after_a_refusal_changes_nothing(schema: Any, text: str, other: str) -> None:
    compiled = Schema(schema)
    check = compiled.check()
    for fragments in batches(cut(text, [1])):
        check.feed(fragments)
    before = (check.verdict, check.error)
    if check.verdict == "rejected":
        for fragments in batches([other]):
            check.feed(fragments)
        assert (check.verdict, check.error) == before


@given(schemas(), instances.filter(lambda value: isinstance(value, dict)), instances)
@steady
def test_finish_has_the_final_word(schema: Any, instance: Any, other: Any) -> None:
    """What was read has its verdict; arguments that were meant in another way are judged alone."""
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
        meant = compiled.check()
        assert (meant.finish(other, as_read=False) is None) == validator.is_valid(other)
        after = check.finish(other, as_read=False)
        assert (after is None) == validator.is_valid(other)
