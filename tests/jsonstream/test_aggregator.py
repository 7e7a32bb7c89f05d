"""FragmentAggregator: values from fragments alone, flat or recursive."""

import pytest
from hypothesis import given

from argstream.errors import UsageError
from argstream.jsonstream import PENDING, Done, FragmentAggregator, Invalid
from argstream.jsonstream.recursive import Done as NestedDone
from argstream.jsonstream.recursive import nested
from argstream.testing import cut
from tests.strategies import cuts, json_texts
from tests.support import run


@given(json_texts, cuts)
def test_aggregator_returns_the_value_of_every_done(text: str, sizes: list[int]) -> None:
    flat, recursive = FragmentAggregator(), FragmentAggregator()
    for fragment in run(cut(text, sizes))[1]:
        value = flat.push(fragment)
        if isinstance(fragment, Done):
            assert repr(value) == repr(fragment.value)
        else:
            assert value is PENDING
        forms = [form for form in nested(fragment) if not isinstance(form, Invalid)]
        values = [found for form in forms if (found := recursive.push(form)) is not PENDING]
        assert repr(values) == repr([] if value is PENDING else [value])


def test_aggregated_value_shares_nothing_with_the_parser() -> None:
    parser, fragments = run(['{"a": [1, {"b": "x"}]}'])
    aggregator = FragmentAggregator()
    values = [aggregator.push(fragment) for fragment in fragments]
    assert values[-1] == parser.value
    parser.value["a"].append("changed")  # type: ignore[index, union-attr, call-overload]
    assert values[-1] == {"a": [1, {"b": "x"}]}


@pytest.mark.parametrize(
    ("fragment", "message"), [(NestedDone(), "the kind of the empty value"), ("x", "not str")]
)
def test_value_that_is_no_fragment_of_a_document_raises(fragment: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        FragmentAggregator().push(fragment)  # type: ignore[arg-type]
