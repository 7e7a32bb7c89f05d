"""What a terminal sends, as keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argstream.terminal._keyboard import Key, KeyDecoder

OTHER = Key("other")


def keys_of(data: bytes) -> list[Key]:
    return KeyDecoder().feed(data)


def characters_of(data: bytes) -> str:
    return "".join(key.text for key in keys_of(data) if key.kind == "character")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\r", "enter"),
        (b"\n", "enter"),
        (b"\x7f", "backspace"),
        (b"\b", "backspace"),
        (b"\x15", "erase_line"),
        (b"\x17", "erase_word"),
        (b"\x00", "other"),
        (b"\t", "other"),
    ],
)
def test_a_control_character_is_a_key_with_a_name(data: bytes, kind: str) -> None:
    assert [key.kind for key in keys_of(data)] == [kind]


@pytest.mark.parametrize("text", ["y", "Y", "é", "不", "🙂", " "])
def test_a_character_is_itself_however_many_bytes_it_has(text: str) -> None:
    decoder = KeyDecoder()
    keys = [key for byte in text.encode() for key in decoder.feed(bytes([byte]))]
    assert keys == [Key("character", text)]


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
def test_a_sequence_is_one_key_and_none_of_its_letters_is(sequence: bytes) -> None:
    decoder = KeyDecoder()
    assert [key for byte in sequence for key in decoder.feed(bytes([byte]))] == [OTHER]
    assert not decoder.is_inside
    assert keys_of(sequence + b"n") == [OTHER, Key("character", "n")]


def test_what_is_pasted_is_one_key_with_its_text() -> None:
    assert keys_of(b"\x1b[200~y\ny\n\x1b[A\x1b[201~n") == [
        Key("paste", "y\ny\n\x1b[A"),
        Key("character", "n"),
    ]


def test_escape_is_a_key_once_nothing_has_followed_it() -> None:
    decoder = KeyDecoder()
    assert decoder.feed(b"\x1b") == []
    assert decoder.is_after_escape
    assert decoder.pause() == [Key("escape")]
    assert decoder.feed(b"y") == [Key("character", "y")]


def test_a_sequence_without_an_end_does_not_swallow_keys_for_ever() -> None:
    decoder = KeyDecoder()
    assert decoder.feed(b"\x1b]y") == []
    assert decoder.is_inside
    assert not decoder.is_after_escape
    assert decoder.pause() == [OTHER]
    assert decoder.feed(b"y") == [Key("character", "y")]


def test_an_endless_sequence_ends() -> None:
    assert OTHER in keys_of(b"\x1b[" + b"1" * 10_000)


def test_a_pause_between_keys_is_nothing() -> None:
    assert KeyDecoder().pause() == []


def test_escape_inside_a_sequence_begins_another() -> None:
    assert keys_of(b"\x1b[\x1b[A") == [OTHER, OTHER]
    assert keys_of(b"\x1b\x1b[A") == [Key("escape"), OTHER]


def test_bytes_that_are_no_utf_8_are_no_key_that_one_could_mean() -> None:
    assert keys_of(b"\xff") == [Key("character", "\N{REPLACEMENT CHARACTER}")]


@given(st.binary(max_size=60), st.integers(1, 7))
def test_it_does_not_matter_how_the_bytes_are_cut(data: bytes, size: int) -> None:
    decoder = KeyDecoder()
    cut = [data[start : start + size] for start in range(0, len(data), size)]
    assert [key for piece in cut for key in decoder.feed(piece)] == keys_of(data)


@given(st.text("0123456789;<=>?", max_size=8), st.characters(codec="ascii", categories=["L"]))
def test_no_letter_that_ends_a_sequence_is_a_key(parameters: str, final: str) -> None:
    assert characters_of(f"\x1b[{parameters}{final}".encode()) == ""
