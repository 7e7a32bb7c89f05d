"""FragmentAggregator: values from fragments alone."""

from hypothesis import given

from argstream.jsonstream import PENDING, Done, FragmentAggregator, parse
from argstream.testing import cut
from tests.strategies import cuts, json_texts
from tests.support import run


@given(json_texts, cuts)
def test_it_gives_the_value_of_every_done(text: str, sizes: list[int]) -> None:
    aggregator = FragmentAggregator()
    for fragment in run(cut(text, sizes))[1]:
        value = aggregator.push(fragment)
        if isinstance(fragment, Done):
            assert repr(value) == repr(fragment.value)
        else:
            assert value is PENDING


def test_it_needs_nothing_but_the_fragments_and_shares_nothing() -> None:
    parser, fragments = run(['{"a": [1, {"b": "x"}]}'])
    aggregator = FragmentAggregator()
    values = [aggregator.push(fragment) for fragment in fragments]
    assert values[-1] == parser.value
    parser.value["a"].append("changed")  # type: ignore[index, union-attr, call-overload]
    assert values[-1] == {"a": [1, {"b": "x"}]}


def test_it_says_when_an_argument_is_complete() -> None:
    aggregator = FragmentAggregator()
    completed = {}
    for fragment in parse('{"path": "a.py", "lines": ["x", "y"], "mode": null}'):
        value = aggregator.push(fragment)
        if value is not PENDING and len(fragment.path) == 1:
            completed[fragment.path[0]] = value
    assert completed == {"path": "a.py", "lines": ["x", "y"], "mode": None}


def test_a_text_that_breaks_off_completes_nothing_more() -> None:
    aggregator = FragmentAggregator()
    assert [aggregator.push(fragment) for fragment in parse('["a", "b')] == [
        *(PENDING, PENDING, PENDING, "a"),
        *(PENDING, PENDING, PENDING),
    ]
