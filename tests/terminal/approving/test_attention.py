"""Which keys are an answer to what stands on the screen."""

import pytest

from argstream.terminal.approving._attention import ANY_KEY, Answer, answer_of
from argstream.terminal.approving._keys import Key, KeyDecoder

CHOICES = ("y", "n", "esc")


def answer(
    data: bytes, stood: float | None = 9.0, *, before: str = "", is_alone: bool = True
) -> Answer:
    keys = KeyDecoder().feed(data)
    return answer_of(keys, CHOICES, stood, before=before, is_alone=is_alone)


def test_a_key_that_comes_alone_and_after_a_moment_is_an_answer() -> None:
    assert answer(b"y", 0.4) == Answer("y")


def test_capitals_are_the_same_keys() -> None:
    assert answer(b"Y") == Answer("y")


def test_escape_is_an_answer_where_it_is_a_choice() -> None:
    assert answer_of([Key("escape")], CHOICES, 9.0) == Answer("esc")
    assert answer_of([Key("escape")], ("y", "n"), 9.0).key == ""


def test_what_was_typed_before_the_question_could_be_seen_is_none() -> None:
    assert answer(b"y", None) == Answer(hint="That was quicker than you can read: press it again.")
    assert answer(b"y", 0.2).key == ""


@pytest.mark.parametrize("before", ["y", ANY_KEY])
def test_a_key_that_may_be_meant_for_the_question_before_needs_more_time(before: str) -> None:
    assert answer(b"y", 0.7, before=before).key == ""  # until a key that is held repeats itself
    assert answer(b"y", 1.1, before=before).key == "y"


def test_another_key_than_that_for_the_question_before_needs_no_more() -> None:
    assert answer(b"n", 0.4, before="y").key == "n"


@pytest.mark.parametrize("data", [b"yy", b"y\n", b"\x1b[200~y\x1b[201~"])
def test_several_keys_at_once_are_a_paste(data: bytes) -> None:
    assert answer(data).hint.startswith("Several keys at once")


def test_a_key_that_is_followed_at_once_is_the_beginning_of_something() -> None:
    assert answer(b"y", is_alone=False).key == ""


def test_enter_is_no_answer() -> None:
    assert answer(b"\n") == Answer(hint="Enter alone is no answer.")


@pytest.mark.parametrize("data", [b"x", b"\x1b[A", b"\x00"])
def test_keys_that_mean_nothing_get_a_hint(data: bytes) -> None:
    assert answer(data) == Answer(hint="That key is none of these.")
