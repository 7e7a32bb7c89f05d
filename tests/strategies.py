"""Random JSON texts: everything that the grammar allows, not only the output of json.dumps."""

from typing import Any

from hypothesis import strategies as st

_white_space = st.text(" \t\n\r", max_size=2)

_string_pieces = st.one_of(
    st.text(max_size=8).map(lambda text: "".join(c for c in text if c >= " " and c not in '"\\')),
    st.sampled_from([r"\"", r"\\", r"\/", r"\b", r"\f", r"\n", r"\r", r"\t"]),
    st.integers(0, 0xFFFF).map(lambda code: f"\\u{code:04x}"),
    st.integers(0xD800, 0xDFFF).map(lambda code: f"\\u{code:04X}"),
    st.integers(0x10000, 0x10FFFF).map(
        lambda code: f"\\u{0xD800 + ((code - 0x10000) >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04X}"
    ),
)
strings = st.lists(_string_pieces, max_size=5).map(lambda pieces: '"' + "".join(pieces) + '"')

numbers = st.one_of(
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"-?(0|[1-9][0-9]{0,5})(\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)
words = st.sampled_from(["true", "false", "null"])


@st.composite
def _containers(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    def spaced(text: str) -> str:
        return draw(_white_space) + text + draw(_white_space)

    items = draw(st.lists(values, max_size=4))
    if draw(st.booleans()):
        return "[" + spaced(",".join(map(spaced, items))) + "]"
    # Few different keys, so that some occur twice.
    keys = st.one_of(strings, st.sampled_from(['"a"', '"b"', r'"\u0061"']))
    members = [spaced(draw(keys)) + ":" + spaced(item) for item in items]
    return "{" + spaced(",".join(members)) + "}"


json_texts = st.builds(
    lambda before, text, after: before + text + after,
    _white_space,
    st.recursive(st.one_of(strings, numbers, words), _containers, max_leaves=12),
    _white_space,
)

_anything = st.text('{}[]",:\\/u0159dDcCeE+-.truefalsn \n\x01\x7fé😀', max_size=12)


@st.composite
def _damaged_texts(draw: st.DrawFn) -> str:
    """A valid text in which a few characters were changed, added or dropped."""
    text: str = draw(json_texts)
    place = draw(st.integers(0, len(text)))
    dropped = draw(st.integers(0, 3))
    return text[:place] + draw(_anything) + text[place + dropped :]


@st.composite
def _cut_texts(draw: st.DrawFn) -> str:
    text: str = draw(json_texts)
    return text[: draw(st.integers(0, len(text)))]


any_texts = st.one_of(json_texts, _cut_texts(), _damaged_texts(), _anything)

# Values, for tests of what json.dumps writes.
texts = st.text()
floats = st.floats(allow_nan=False, allow_infinity=False)
scalars = (st.none(), st.booleans(), st.integers(), floats, texts)


def json_values(
    *leaves: st.SearchStrategy[Any],
    keys: st.SearchStrategy[str] = texts,
    size: int = 3,
    max_leaves: int = 8,
) -> st.SearchStrategy[Any]:
    """JSON values with these leaves, in arrays and objects of up to this size."""
    return st.recursive(
        st.one_of(*leaves),
        lambda inner: st.lists(inner, max_size=size) | st.dictionaries(keys, inner, max_size=size),
        max_leaves=max_leaves,
    )


# Sizes for ``argstream.testing.cut``, with empty chunks.
cuts = st.lists(st.integers(0, 7), min_size=1, max_size=12).filter(any)
