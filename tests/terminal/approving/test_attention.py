"""Which keys are an answer to what stands on the screen."""

from argstream.terminal.approving._attention import Answer, Attention
from argstream.terminal.approving._keys import Key, KeyDecoder

CHOICES = ("y", "n", "esc")


def keys(data: bytes) -> list[Key]:
    return KeyDecoder().feed(data)


def painted() -> Attention:
    attention = Attention()
    attention.asked_for(9.9)
    attention.asked_for(10.0)
    return attention


def test_a_key_that_comes_alone_and_after_a_moment_is_an_answer() -> None:
    assert painted().answer(keys(b"y"), CHOICES, 10.4) == Answer("y")


def test_capitals_are_the_same_keys() -> None:
    assert painted().answer(keys(b"Y"), CHOICES, 10.4) == Answer("y")


def test_escape_is_an_answer_where_it_is_a_choice() -> None:
    assert painted().answer([Key("escape")], CHOICES, 10.4) == Answer("esc")
    assert painted().answer([Key("escape")], ("y", "n"), 10.4).key == ""


def test_what_was_typed_before_the_question_was_painted_is_none() -> None:
    assert Attention().answer(keys(b"y"), CHOICES, 99.0).key == ""


def test_a_question_that_is_being_painted_cannot_be_seen_yet() -> None:
    attention = Attention()
    attention.asked_for(10.0)  # and the terminal does not take it
    assert attention.answer(keys(b"y"), CHOICES, 99.0).key == ""


def test_what_is_typed_too_soon_after_it_is_none() -> None:
    assert painted().answer(keys(b"y"), CHOICES, 10.2).key == ""


def test_painting_again_changes_nothing() -> None:
    attention = painted()
    attention.asked_for(10.35)
    assert attention.answer(keys(b"y"), CHOICES, 10.4).key == "y"


def test_who_goes_on_typing_has_not_read_it() -> None:
    attention = painted()
    times = [10.2 + 0.2 * number for number in range(20)]
    assert not any(attention.answer(keys(b"y"), CHOICES, time).key for time in times)
    assert attention.answer(keys(b"y"), CHOICES, times[-1] + 0.4).key == "y"


def test_several_keys_at_once_are_a_paste() -> None:
    assert painted().answer(keys(b"yy"), CHOICES, 11.0).key == ""
    assert painted().answer(keys(b"y\n"), CHOICES, 11.0).key == ""
    assert painted().answer(keys(b"\x1b[200~y\x1b[201~"), CHOICES, 11.0).key == ""


def test_a_key_that_is_followed_at_once_is_the_beginning_of_a_paste() -> None:
    assert painted().answer(keys(b"y"), CHOICES, 11.0, is_alone=False).key == ""


def test_what_follows_a_paste_may_be_the_rest_of_it() -> None:
    attention = painted()
    attention.answer(keys(b"some text"), CHOICES, 11.0)
    assert attention.answer(keys(b"y"), CHOICES, 11.1).key == ""


def test_enter_is_no_answer() -> None:
    assert painted().answer(keys(b"\n"), CHOICES, 11.0) == Answer(hint="Enter alone is no answer.")


def test_keys_that_mean_nothing_get_a_hint() -> None:
    for data in (b"x", b"\x1b[A", b"\x00"):
        assert painted().answer(keys(data), CHOICES, 11.0) == Answer(
            hint="That key is none of these."
        )


def test_a_question_that_follows_from_a_key_is_answered_as_soon_as_it_is_seen() -> None:
    attention = Attention(at_once=True)
    assert attention.answer(keys(b"y"), CHOICES, 10.0).key == ""
    attention = Attention(at_once=True)
    attention.asked_for(9.9)
    attention.asked_for(10.0)
    assert attention.answer(keys(b"y"), CHOICES, 10.0).key == "y"
