"""The helper that cuts input, on which every other test relies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.errors import UsageError
from argstream.testing import at_every_place, chunkings, cut
from tests.strategies import cuts


@given(st.text(), cuts)
def test_cut_loses_nothing_and_respects_the_sizes(text: str, sizes: list[int]) -> None:
    chunks = cut(text, sizes)
    assert "".join(chunks) == text
    assert all(len(chunk) == sizes[n % len(sizes)] for n, chunk in enumerate(chunks[:-1]))


def test_cut_refuses_sizes_that_lead_nowhere() -> None:
    for sizes in ([0, 0], [], [2, -1]):
        with pytest.raises(UsageError, match="not be negative, and not all 0"):
            cut("abc", sizes)
    assert cut("", [0]) == []


def test_at_every_place_cuts_at_every_place() -> None:
    assert list(at_every_place(b"abcd")) == [[b"a", b"bcd"], [b"ab", b"cd"], [b"abc", b"d"]]
    assert list(at_every_place("a")) == []


@pytest.mark.parametrize("data", ["", "a", "hello, world " * 9])
def test_chunkings_lose_nothing(data: str) -> None:
    ways = dict(chunkings(data))
    assert all("".join(chunks) == data for chunks in ways.values())
    assert ways["chunks of 1"] == list(data)
    assert dict(chunkings(data.encode())).keys() == ways.keys()


def test_chunkings_cover_what_they_promise() -> None:
    ways = list(chunkings("x" * 200, seed=3))
    assert len({name for name, _ in ways}) == len(ways)
    assert ways[0][1] == ["x" * 200]
    assert any("" in chunks for _, chunks in ways)
    assert any(len(set(map(len, chunks))) > 3 for _, chunks in ways)
    assert list(chunkings("x" * 200, seed=3)) == ways
    assert list(chunkings("x" * 200, seed=4)) != ways
