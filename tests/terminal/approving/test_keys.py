"""The bytes of a terminal as keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.terminal._keyboard import Key, KeyDecoder

OTHER = Key("other")
N = Key("character", "n")


def keys_of(data: bytes, size: int = 1) -> list[Key]:
    """Decode bytes in pieces of this size."""
    decoder = KeyDecoder()
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    return [key for piece in pieces for key in decoder.feed(piece)]


def test_control_characters_are_named_keys() -> None:
    kinds = [key.kind for key in keys_of(b"\r\n\x7f\b\x15\x17\x00\t")]
    erasing = ["backspace", "backspace", "erase_line", "erase_word"]
    assert kinds == ["enter", "enter", *erasing, "other", "other"]


@pytest.mark.parametrize("text", ["y", "Y", "é", "不", "🙂", " "])
def test_character_is_one_key(text: str) -> None:
    assert keys_of(text.encode()) == [Key("character", text)]


@pytest.mark.parametrize(
    "sequence",
    [
        b"\x1b[A",  # up
        b"\x1b[1;5C",  # Ctrl-right
        b"\x1b[3~",  # delete
        b"\x1bOy",  # the 9 of a number pad
        b"\x1bO5A",  # Ctrl-up, as some terminals have it
        b"\x1bNa",
        b"\x1b[[A",  # F1 of the Linux console
        b"\x1b[M y!",  # a mouse
        b"\x1b[<0;12;7M",  # a mouse of today
        b"\x1b[y",  # a report
        b"\x1by",  # Alt-y
        b"\x1b]11;rgb:ffff/ffff/ffff\x07",  # the colour of the background
        b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\",
        b"\x1bP>|tmux 3.3a\x1b\\",
        "\x9b1;5A".encode(),  # eight bits
        "\x9dy\x9c".encode(),
    ],
)
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
    ],
)
def test_special_input(data: bytes, keys: list[Key]) -> None:
    assert keys_of(data) == keys
    assert OTHER in keys_of(b"\x1b[" + b"1" * 10_000)  # endless


def test_pause_ends_an_incomplete_sequence() -> None:
    decoder = KeyDecoder()
    assert decoder.pause() == []
    assert decoder.feed(b"\x1b") == []
    assert decoder.is_after_escape
    assert decoder.pause() == [Key("escape")]
    assert decoder.feed(b"n\x1b]y") == [N]
    assert decoder.is_inside
    assert not decoder.is_after_escape
    assert decoder.pause() == [OTHER]
    assert decoder.feed(b"n") == [N]
    assert not decoder.is_inside


@given(st.binary(max_size=60), st.integers(2, 7))
def test_chunking_does_not_matter(data: bytes, size: int) -> None:
    assert keys_of(data, size) == keys_of(data)


@given(st.text("0123456789;<=>?", max_size=8), st.characters(codec="ascii", categories=["L"]))
def test_final_letter_of_a_sequence_is_no_key(parameters: str, final: str) -> None:
    keys = keys_of(f"\x1b[{parameters}{final}".encode())
    assert "character" not in [key.kind for key in keys]
