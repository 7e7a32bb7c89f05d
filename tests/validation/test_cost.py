"""What a check costs grows as the text does, and no faster."""

from collections.abc import Callable
from typing import Any

import pytest

from argstream.testing import cut
from argstream.validation import Schema
from tests.growth import BOUND, growth
from tests.validation.rulings import batches, judge_fragments

LONG: dict[str, tuple[Any, Callable[[int], str]]] = {
    "a string": (
        {"properties": {"a": {"maxLength": 10**9, "pattern": "^x"}}},
        lambda size: '{"a": "' + "x" * size + '"}',
    ),
    "a string in branches": (
        {"anyOf": [{"enum": ["x", "xx"]}, {"maxLength": 10**9}, {"minLength": 3}]},
        lambda size: '"' + "x" * size + '"',
    ),
    "items": (
        {"items": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}},
        lambda size: "[" + ", ".join(['{"a": "xyz"}'] * (size // 12)) + "]",
    ),
    "items in branches": (
        {"items": {"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1}]}},
        lambda size: "[" + ", ".join(['["xyz"]'] * (size // 8)) + "]",
    ),
    "members": (
        {"additionalProperties": {"type": "integer"}, "propertyNames": {"pattern": "^a"}},
        lambda size: "{" + ", ".join(f'"a{n}": 1' for n in range(size // 10)) + "}",
    ),
    "what is judged at the close": (
        {"items": {"not": {"type": "string"}, "uniqueItems": True}, "minItems": 3},
        lambda size: "[" + ", ".join(["[1, 2]"] * (size // 8)) + "]",
    ),
}


@pytest.mark.timing
@pytest.mark.parametrize("name", LONG)
def test_work_grows_as_the_text_does(name: str) -> None:
    """Work per piece must not grow with the text so far. The parser is not measured here.

    The fragments are made before, so they must be few enough to stay in the processor's cache.
    """
    written, text_of_size = LONG[name]
    schema = Schema(written)

    def job_of_size(size: int) -> Callable[[], object]:
        said = list(batches(cut(text_of_size(size), [4])))
        return lambda: judge_fragments(schema, said)

    assert growth(job_of_size, 5_000) <= BOUND
