"""Random schema × instance × chunking: a check is sound, final and independent of chunking."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.testing import cut
from argstream.validation import Schema, SchemaCheck, ToolSpec, lint
from tests.strategies import cuts
from tests.validation.checking import batches, check_fragments, check_text, oracle
from tests.validation.schemas import instances, names, schemas, steady
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
_STEP = len(_UNIVERSE.readings) // 12
readings = st.integers(0, _STEP - 1).map(lambda first: _UNIVERSE.readings[first::_STEP])

arguments = st.dictionaries(names, instances, max_size=3)


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


@pytest.mark.bulk
@given(schemas(), instances | arguments, arguments, st.sampled_from([None, 1]), cuts)
@steady
def test_verdict_equals_jsonschema_rs_in_any_chunking_and_any_schema_can_be_linted(
    schema: Any, instance: Any, other: Any, indent: int | None, sizes: list[int]
) -> None:
    text = json.dumps(instance, ensure_ascii=indent is None, indent=indent)
    compiled, validator = Schema(schema), oracle(schema)
    whole = check_text(compiled, [text])
    valid = validator.is_valid(instance)
    assert whole.verdict == ("valid" if valid else "rejected")
    # ToolSpec refuses a schema without any known keyword.
    known = {"title": "any"} | schema if isinstance(schema, dict) else schema
    codes = {found.code for found in lint([ToolSpec("tool", schema=known)])}
    assert ("unusable" in codes) == (schema is False)
    for chunks in (cut(text, [1]), cut(text, sizes), cut(text.encode(), sizes)):
        assert check_text(compiled, chunks).stable == whole.stable
    check = compiled.check()
    for fragments in [*batches([text]), *batches([text[::-1]]), *batches(["{}"])]:
        check.feed(fragments)
    # Text after a rejection changes nothing.
    assert valid or (check.verdict, check.error) == whole.stable
    if isinstance(instance, dict):
        check = fed_with(compiled, text)
        assert check.finish(instance, as_read=True) == check.error == whole.error
        # Arguments that were reinterpreted are checked again.
        for one in (compiled.check(), check):
            assert (one.finish(other, as_read=False) is None) == validator.is_valid(other)


def fed_with(schema: Schema, text: str) -> SchemaCheck:
    check = schema.check()
    for fragments in batches([text]):
        check.feed(fragments)
    return check
