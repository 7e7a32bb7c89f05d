"""Text that was cut inside a surrogate pair (invariant 4)."""

from hypothesis import example, given
from hypothesis import strategies as st

from argstream.assembly._surrogates import SurrogateMender, mended, mended_json
from argstream.testing import cut
from tests.strategies import cuts

# Beginnings and ends of pairs and of characters in bytes (some are both), and what ends a line.
AMBIGUOUS = st.sampled_from("\ud83d\udbff\ude00\udcc2\udce2\udcf0\udc9f\udc82\udcac\n")
ANY_TEXT = st.text(AMBIGUOUS | st.characters(categories=("Cs", "Lu", "So")))


@given(ANY_TEXT, cuts)
@example("\ud83d\udcc2", [1])
@example("\ud83d\n", [2])
def test_chunking_never_matters(text: str, sizes: list[int]) -> None:
    mender = SurrogateMender()
    found = "".join(mender.feed(piece) for piece in cut(text, sizes)) + mender.close()
    assert found == mended(text)
    found.encode()


def test_halves_are_joined_or_replaced() -> None:
    assert mended("a\ud83d\ude00b") == "a😀b"
    assert mended("\ude00\ud83d") == "\ufffd\ufffd"
    assert mended_json({"\ud800": ["\udc00", 1, None, {"a": "b"}]}) == {
        "\ufffd": ["\ufffd", 1, None, {"a": "b"}]
    }
