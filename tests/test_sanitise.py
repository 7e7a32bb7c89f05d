"""Text of a model, made safe to show (invariant 13)."""

import time
import unicodedata
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from argstream.sanitise import (
    SurrogateReplacer,
    original,
    replace_lone_surrogates,
    replace_lone_surrogates_in_json,
    visible,
    visible_line,
    warnings_about,
)
from argstream.testing import cut
from tests.growth import BOUND, growth
from tests.strategies import cuts
from tests.support import hidden_ranges

# Unicode's property Default_Ignorable_Code_Point, from DerivedCoreProperties.txt: a renderer that
# does not support such a character should show nothing.
DEFAULT_IGNORABLE = [
    (0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5),
    (0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164),
    (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
]  # fmt: skip
CATEGORIES: Final = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs")
BLANK = "\u2800\U00013441\U00013442\U00016fe4\U0001d159"


IGNORABLE = {chr(c) for first, last in DEFAULT_IGNORABLE for c in range(first, last + 1)}
ESCAPED = {*IGNORABLE, *BLANK, "⟦"}


def must_be_escaped(character: str) -> bool:
    """Return True if a character may not reach a screen, by Unicode's categories."""
    is_hidden = unicodedata.category(character) in CATEGORIES or character in ESCAPED
    return is_hidden and character not in " \u3000"


@pytest.fixture(scope="module")
def spellings() -> dict[str, str]:
    """Return how characters are shown in a line.

    These are the first two planes, where nearly all are assigned, the tags, which some models read,
    and both sides of each edge of a range of escaped characters.
    """
    edges = {code + step for pair in hidden_ranges() for code in pair for step in (-1, 0, 1)}
    codes = {*range(0x20000), *range(0xE0000, 0xE1000), *edges} & set(range(0x110000))
    return {chr(code): visible_line(chr(code)) for code in sorted(codes)}


_characters = st.one_of(
    st.integers(0, 0x10FFFF).map(chr),
    st.characters(categories=CATEGORIES),
    st.sampled_from("⟦⟧U+0123456789ABCDEF\\ux{}ESCZWJVLF \t\n\r\x1b\x9b\u202e\ud800\udc00é漢😀"),
)
_spellings = st.sampled_from(
    ["⟦ESC⟧", "⟦U+27E6⟧", "⟦U+001B⟧", "⟦", "⟧", "\x1b[", "\x9b2J", "\x1b]52;c;eA==", "\x9d", "x"]
)
texts = st.text(_characters) | st.lists(_spellings).map("".join)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "⟦ESC⟧[31mred⟦ESC⟧[0m"),
        ("\x9b2J", "⟦CSI⟧2J"),
        ("\x1b]52;c;cm0gLXJm\x07", "⟦ESC⟧]52;c;cm0gLXJm⟦BEL⟧"),
        ("\x9d0;title\x9c", "⟦OSC⟧0;title⟦ST⟧"),
        ("\x1bP$q\x1b\\", "⟦ESC⟧P$q⟦ESC⟧\\"),
        ("\x90q\x9c", "⟦DCS⟧q⟦ST⟧"),
        ("yes\b\b\bno \x7f\x00", "yes⟦BS⟧⟦BS⟧⟦BS⟧no ⟦DEL⟧⟦NUL⟧"),
        ("if (admin\u202e \u2066) {\u2069", "if (admin⟦RLO⟧ ⟦LRI⟧) {⟦PDI⟧"),
        ("pass\u200bword\ufeff", "pass⟦ZWSP⟧word⟦BOM⟧"),
        ("a\U000e0041\U000e007f", "a⟦U+E0041⟧⟦U+E007F⟧"),
        ("\ue000\U0010ffff", "⟦U+E000⟧⟦U+10FFFF⟧"),
        ("\ud83d", "⟦U+D83D⟧"),
        ("\U0001f469\u200d\U0001f4bb \u26a0\ufe0f", "\U0001f469⟦ZWJ⟧\U0001f4bb \u26a0⟦VS16⟧"),
        ("a\u2028b\x85c\vd", "a⟦U+2028⟧b⟦NEL⟧c⟦VT⟧d"),
        ("5\u202fPM.png\u00a0x", "5⟦NNBSP⟧PM.png⟦NBSP⟧x"),
        ("one\r\ntwo\rthree", "one⟦CR⟧\ntwo⟦CR⟧three"),
        ("⟦ESC⟧ ⟧", "⟦U+27E6⟧ESC⟧ ⟧"),
    ],
)
def test_control_and_invisible_characters_are_named(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        *("", r"C:\new\temp \x1b \u{1b} \u202e \\ ${x} &#x202e; %1b ^[ <U+202E> [ESC] {ESC}"),
        *("def f():\n\treturn 'é'\n", "漢字\u3000かな 한글 ไทย हिन्दी עברית العربية"),
        "e\u0301 n\u0303 \U0001f600 \U0001f1eb\U0001f1f7 \ufffd",
    ],
)
def test_ordinary_text_is_unchanged_and_ascii_is_not_copied(text: str) -> None:
    assert visible(text) == text
    plain, line = "import os\n\tprint(os.name)\n" * 2, "src/app.py" * 2
    assert visible(plain) is plain
    assert visible_line(line) is line


def test_newlines_and_tabs_are_named_in_a_line() -> None:
    assert visible_line("a\tb\nc\x1b") == "a⟦TAB⟧b⟦LF⟧c⟦ESC⟧"
    assert visible_line("é\tb\nc") == "é⟦TAB⟧b⟦LF⟧c"
    assert visible_line(r"src\app.py") == r"src\app.py"


@pytest.mark.bulk
def test_every_dangerous_character_has_its_own_visible_spelling(spellings: dict[str, str]) -> None:
    escaped = {character for character, spelling in spellings.items() if spelling != character}
    assert escaped == set(filter(must_be_escaped, spellings))
    assert len(set(spellings.values())) == len(spellings)
    assert set(filter(must_be_escaped, set("".join(spellings.values())))) == {"⟦"}
    names = {character: spellings[character][1:-1] for character in escaped}
    # A spelling ends at its first closing bracket.
    assert [c for c, name in names.items() if spellings[c] != f"⟦{name}⟧" or "⟧" in name] == []
    numbers = {c for c, name in names.items() if name == f"U+{ord(c):04X}"}
    assert all(unicodedata.lookup(names[c]) == c for c in escaped - numbers)


@pytest.mark.bulk
def test_text_differs_from_a_line_in_newline_and_tab_only(spellings: dict[str, str]) -> None:
    text = "".join(map(chr, range(0x20000)))
    shown = "".join(c if c in "\t\n" else spellings[c] for c in text)
    assert visible(text) == shown
    assert original(shown) == text


@given(texts, texts)
def test_different_texts_look_different_and_can_be_read_back(one: str, other: str) -> None:
    for show in (visible, visible_line):
        assert original(show(one)) == one
        assert (show(one) == show(other)) == (one == other)
    once = visible(one)
    twice = visible(once)
    assert original(twice) == once
    assert (twice == once) == ("⟦" not in once)


@given(texts, cuts)
def test_chunking_changes_nothing(text: str, sizes: list[int]) -> None:
    for show in (visible, visible_line):
        assert "".join(map(show, cut(text, sizes))) == show(text)


@given(texts)
def test_shown_text_is_encodable_and_has_the_lines_of_the_text(text: str) -> None:
    shown = visible(text)
    assert shown.encode().decode() == shown
    assert all(
        visible_line(character) in (character, "⟦U+27E6⟧", "⟦TAB⟧", "⟦LF⟧") for character in shown
    )
    assert shown.splitlines() == shown.removesuffix("\n").split("\n") or not shown
    assert shown.count("\n") == text.count("\n")
    assert len(visible_line(text).splitlines()) <= 1


def test_original_accepts_numbers_and_ignores_other_brackets() -> None:
    assert original("⟦U+001B⟧⟦U+0041⟧⟦U+1F600⟧⟦U+10FFFF⟧") == "\x1bA\U0001f600\U0010ffff"
    numbers = ["⟦U+1B⟧", "⟦U+0001B⟧", "⟦U+110000⟧", "⟦U+00e9⟧"]
    for text in ("⟦", "⟦⟧", "⟦NOPE⟧", "⟦esc⟧", "⟦ESC", *numbers):
        assert original(text) == text


WARNINGS: list[tuple[Any, list[str]]] = [
    ("https://\u0430pi.example/x", ["Mixed scripts: “\u0430pi” has Cyrillic \u0430 (U+0430)"]),
    ({"path": ["/etc/p\u0430sswd"]}, ["Mixed scripts: “p\u0430sswd” has Cyrillic \u0430 (U+0430)"]),
    ({"c\u03bfst": 1}, ["Mixed scripts: “c\u03bfst” has Greek \u03bf (U+03BF)"]),
    ("a1\u0501", ["Mixed scripts: “a1\u0501” has Cyrillic \u0501 (U+0501)"]),
    ("\\t\u0430rget", ["Mixed scripts: “t\u0430rget” has Cyrillic \u0430 (U+0430)"]),
    ("x" * 30 + "\u13a0", [f"Mixed scripts: “{'x' * 21}\u13a0” has Cherokee \u13a0 (U+13A0)"]),
    ("Zo" + "\u0301" * 5, ["Stacked marks: “o” has 5 combining marks"]),
    ("\U0001f600" + "\u0e49" * 9, ["Stacked marks: “\U0001f600” has 9 combining marks"]),
    ("\u0301" * 6, ["Stacked marks: “” has 6 combining marks"]),
    (
        ["a\u0430", "b\u0430", {"c": "c\u0430 d\u0430"}],
        [
            *(f"Mixed scripts: “{x}\u0430” has Cyrillic \u0430 (U+0430)" for x in "abc"),
            "More such words",
        ],
    ),
    (
        "x\u0430b " * 2_000,
        ["Mixed scripts: “x\u0430b” has Cyrillic \u0430 (U+0430)", "More such words"],
    ),
    # Ordinary texts
    ("plain", []),
    (7, []),
    ({"a": [None, True, 1.5, {}]}, []),
    ("caf\u00e9 na\u00efve \u6f22\u5b57API \u3067\u3059 LG\uc804\uc790", []),
    ("\u043e\u0442\u0447\u0451\u0442_v2.txt API-\u043a\u043b\u044e\u0447 5\u043a\u0433", []),
    ("print('\\n\u043f\u0440\u0438\u0432\u0435\u0442')", []),
    ("10\u03bcs \u0394t k\u03a9", []),
    ("o" + "\u0301" * 4, []),
]
"""Values, and what `warnings_about` returns. A test of the page uses them too."""


@pytest.mark.parametrize(("value", "expected"), WARNINGS)
def test_what_an_approver_cannot_see_is_a_warning(value: Any, expected: list[str]) -> None:
    assert list(warnings_about(value)) == expected


@pytest.mark.timing
@pytest.mark.parametrize("unit", ["\u0430a", "\u0430a ", "a1", "\u0301", "e\u0301", "\u0430 a "])
def test_warnings_about_a_long_text_are_cheap(unit: str) -> None:
    started = time.process_time()
    warnings_about(unit * (1_000_000 // len(unit)))
    assert time.process_time() - started < 0.5


@pytest.mark.bulk
def test_characters_that_must_be_escaped_are_and_no_others() -> None:
    listed = [chr(code) for first, last in hidden_ranges() for code in range(first, last + 1)]
    assert listed == list(filter(must_be_escaped, map(chr, range(0x110000))))


PIECES = ["import os\n", "import os\n\x1b", "привет мир\n", "漢字\u3000", "\U0001f600", "\x1b", "⟦"]


@pytest.mark.timing
@pytest.mark.parametrize("piece", [*PIECES, "\U000e0041"], ids=ascii)
@pytest.mark.parametrize("show", [visible, visible_line, original])
def test_cost_is_linear(show: Callable[[str], str], piece: str) -> None:
    show(piece)  # compiles the pattern
    pieces = 100_000 // len(visible(piece))
    assert growth(lambda size: partial(show, piece * size), pieces) <= BOUND


@pytest.mark.timing
@pytest.mark.parametrize("piece", ["⟦U+00", "⟦ESC", "A"])
def test_reading_back_unclosed_spellings_is_linear(piece: str) -> None:
    assert growth(lambda size: partial(original, "⟦" + piece * size), 25_000) <= BOUND


# First and last halves of pairs and of characters in bytes (some are both), and a newline.
AMBIGUOUS = st.sampled_from("\ud83d\udbff\ude00\udcc2\udce2\udcf0\udc9f\udc82\udcac\n")
ANY_TEXT = st.text(AMBIGUOUS | st.characters(categories=("Cs", "Lu", "So")))


@given(ANY_TEXT, cuts)
@example("\ud83d\udcc2", [1])
@example("\ud83d\n", [2])
def test_surrogates_are_replaced_however_the_text_is_cut(text: str, sizes: list[int]) -> None:
    mender = SurrogateReplacer()
    found = "".join(mender.feed(piece) for piece in cut(text, sizes)) + mender.close()
    assert found == replace_lone_surrogates(text)
    found.encode()


def test_surrogate_pairs_are_joined_and_lone_ones_replaced() -> None:
    assert replace_lone_surrogates("a\ud83d\ude00b") == "a😀b"
    assert replace_lone_surrogates("\ude00\ud83d") == "\ufffd\ufffd"
    value = {"\ud800": ["\udc00", 1, None, {"a": "b"}]}
    assert replace_lone_surrogates_in_json(value) == {"\ufffd": ["\ufffd", 1, None, {"a": "b"}]}
