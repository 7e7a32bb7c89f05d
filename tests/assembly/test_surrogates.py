"""Text that was cut inside a surrogate pair (invariant 4)."""

from hypothesis import given
from hypothesis import strategies as st

from argstream.assembly._surrogates import SurrogateMender, mended, mended_json

ANY_TEXT = st.text(st.characters(categories=("Cs", "Lu", "So")))


@given(ANY_TEXT, st.lists(st.integers(0, 3)))
def test_chunking_never_matters(text: str, sizes: list[int]) -> None:
    mender = SurrogateMender()
    found, at = "", 0
    for size in sizes:
        found += mender.feed(text[at : at + size])
        at += size
    found += mender.feed(text[at:]) + mender.close()
    assert found == mended(text)
    found.encode()


def test_halves_are_joined_or_replaced() -> None:
    assert mended("a\ud83d\ude00b") == "a😀b"
    assert mended("\ude00\ud83d") == "\ufffd\ufffd"
    assert mended_json({"\ud800": ["\udc00", 1, None, {"a": "b"}]}) == {
        "\ufffd": ["\ufffd", 1, None, {"a": "b"}]
    }
