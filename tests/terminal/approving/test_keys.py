"""The bytes of a terminal as keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.terminal._entry import Key, KeyDecoder
from argstream.testing import cut

OTHER = Key("other")
N = Key("character", "n")


def keys_of(data: bytes, size: int = 1) -> list[Key]:
    decoder = KeyDecoder()
    return [key for piece in cut(data, [size]) for key in decoder.feed(piece)]


def test_control_characters_are_named_keys() -> None:
    kinds = [key.kind for key in keys_of(b"\r\n\x7f\b\x15\x17\x00\t")]
    erasing = ["backspace", "backspace", "erase_line", "erase_word"]
    assert kinds == ["enter", "enter", *erasing, "other", "other"]


CURSOR = [b"\x1b[A", b"\x1b[1;5C", b"\x1b[3~", b"\x1bOy", b"\x1bO5A", b"\x1bNa", b"\x1b[[A"]
MOUSE = [b"\x1b[M y!", b"\x1b[<0;12;7M"]
REPORTS = [b"\x1b[y", b"\x1b]11;rgb:ffff/ffff/ffff\x07", b"\x1b]11;y\x1b\\", b"\x1bP>|tmux\x1b\\"]
EIGHT_BITS = ["\x9b1;5A".encode(), "\x9dy\x9c".encode()]
ALT_Y = b"\x1by"


@pytest.mark.parametrize("sequence", [*CURSOR, *MOUSE, *REPORTS, *EIGHT_BITS, ALT_Y])
def test_sequence_is_one_key_and_none_of_its_letters_is(sequence: bytes) -> None:
    assert keys_of(sequence + b"n") == [OTHER, N]


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"\x1b[200~y\ny\n\x1b[A\x1b[201~n", [Key("paste", "y\ny\n\x1b[A"), N]),
        # Escape inside a sequence starts another.
        (b"\x1b[\x1b[A", [OTHER, OTHER]),
        (b"\x1b\x1b[A", [Key("escape"), OTHER]),
        (b"\xff", [Key("character", "\N{REPLACEMENT CHARACTER}")]),
        *[(text.encode(), [Key("character", text)]) for text in ("y", "Y", "é", "不", "🙂", " ")],
    ],
)
def test_special_input(data: bytes, keys: list[Key]) -> None:
    assert keys_of(data) == keys
    assert OTHER in keys_of(b"\x1b[" + b"1" * 10_000)  # endless


def test_pause_ends_an_incomplete_sequence() -> None:
    decoder = KeyDecoder()
    assert decoder.pause() == []
    assert decoder.feed(b"\x1b") == []
    assert (decoder.is_inside, decoder.is_after_escape) == (True, True)
    assert decoder.pause() == [Key("escape")]
    assert decoder.feed(b"n\x1b]y") == [N]
    assert (decoder.is_inside, decoder.is_after_escape) == (True, False)
    assert decoder.pause() == [OTHER]
    assert decoder.feed(b"n") == [N]
    assert (decoder.is_inside, decoder.is_after_escape) == (False, False)
    assert decoder.feed(b"\x1b[200~a paste that stalls\n") == decoder.pause() == []
    assert decoder.feed(b"y\n\x1b[201~n") == [Key("paste", "a paste that stalls\ny\n"), N]


@given(st.binary(max_size=60), st.integers(2, 7))
def test_chunking_does_not_matter(data: bytes, size: int) -> None:
    assert keys_of(data, size) == keys_of(data)


@given(st.text("0123456789;<=>?", max_size=8), st.characters(codec="ascii", categories=["L"]))
def test_final_letter_of_a_sequence_is_no_key(parameters: str, final: str) -> None:
    keys = keys_of(f"\x1b[{parameters}{final}".encode())
    assert "character" not in [key.kind for key in keys]
