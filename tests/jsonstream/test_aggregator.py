"""FragmentAggregator: values from fragments alone, flat or recursive."""

import pytest
from hypothesis import given

from argstream.errors import UsageError
from argstream.jsonstream import PENDING, Done, FragmentAggregator, Invalid, NestedParser
from argstream.jsonstream.recursive import ArrayItem, ObjectEntry, Scalar, String
from argstream.jsonstream.recursive import Done as NestedDone
from argstream.testing import cut
from tests.strategies import cuts, json_texts
from tests.support import run


@given(json_texts, cuts)
def test_aggregator_returns_the_value_of_every_done(text: str, sizes: list[int]) -> None:
    aggregator = FragmentAggregator()
    for fragment in run(cut(text, sizes))[1]:
        value = aggregator.push(fragment)
        if isinstance(fragment, Done):
            assert repr(value) == repr(fragment.value)
        else:
            assert value is PENDING


def test_aggregated_value_shares_nothing_with_the_parser() -> None:
    parser, fragments = run(['{"a": [1, {"b": "x"}]}'])
    aggregator = FragmentAggregator()
    values = [aggregator.push(fragment) for fragment in fragments]
    assert values[-1] == parser.value
    parser.value["a"].append("changed")  # type: ignore[index, union-attr, call-overload]
    assert values[-1] == {"a": [1, {"b": "x"}]}


def test_recursive_fragments_nest_instead_of_a_path() -> None:
    parser = NestedParser()
    assert parser.push('{"a": ["x') == [ObjectEntry("a", ArrayItem(0, String("x")))]
    assert parser.push('", 1]') == [
        ObjectEntry("a", ArrayItem(0, NestedDone())),
        ObjectEntry("a", ArrayItem(1, Scalar(1))),
        ObjectEntry("a", ArrayItem(1, NestedDone())),
        ObjectEntry("a", NestedDone()),
    ]
    assert (parser.value, parser.verdict) == ({"a": ["x", 1]}, "open")
    assert parser.close() == [Invalid((), 14, "truncated")]


@pytest.mark.parametrize(
    "text", ['{"a": [1, {"b": "x"}], "c": null}', '[{}, [], ""]', "-1.5", '"x"']
)
def test_recursive_fragments_aggregate_to_the_same_value(text: str) -> None:
    parser, aggregator = NestedParser(), FragmentAggregator()
    values = [aggregator.push(one) for one in [*parser.push(text), *parser.close()]]
    assert values[-1] == parser.value


@pytest.mark.parametrize(
    ("fragment", "message"), [(NestedDone(), "the kind of the empty value"), ("x", "not str")]
)
def test_value_that_is_no_fragment_of_a_document_raises(fragment: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        FragmentAggregator().push(fragment)  # type: ignore[arg-type]
