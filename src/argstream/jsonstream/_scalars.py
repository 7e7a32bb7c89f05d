"""Inside a number or a word: which character may follow which, and what the whole is worth.

A state is the table of the characters that may come next. Numbers and words are short, so stepping
through such tables beats a compiled pattern, and it can stop and go on between any two characters.
"""

from collections.abc import Callable
from typing import Final

from argstream.jsonstream.fragments import JsonValue

__all__ = ["SCALAR", "excess_digit"]


class ScalarState(dict[str, "ScalarState"]):
    """The characters that may come next; ``convert`` is None where the scalar cannot end.

    The last letter of a word leads to a state without any: no longer word exists.
    """

    def __init__(self, convert: Callable[[str], JsonValue] | None = None) -> None:
        super().__init__()
        self.convert = convert


SCALAR: Final = ScalarState()
"""Before the first character."""

_MINUS: Final = ScalarState()
_ZERO: Final = ScalarState(int)
_INTEGER: Final = ScalarState(int)
_POINT: Final = ScalarState()
_FRACTION: Final = ScalarState(float)
_LETTER_E: Final = ScalarState()
_EXPONENT_SIGN: Final = ScalarState()
_EXPONENT: Final = ScalarState(float)

for _state, _characters, _following in (
    (SCALAR, "-", _MINUS),
    (SCALAR, "0", _ZERO),
    (SCALAR, "123456789", _INTEGER),
    (_MINUS, "0", _ZERO),
    (_MINUS, "123456789", _INTEGER),
    (_ZERO, ".", _POINT),
    (_ZERO, "eE", _LETTER_E),
    (_INTEGER, "0123456789", _INTEGER),
    (_INTEGER, ".", _POINT),
    (_INTEGER, "eE", _LETTER_E),
    (_POINT, "0123456789", _FRACTION),
    (_FRACTION, "0123456789", _FRACTION),
    (_FRACTION, "eE", _LETTER_E),
    (_LETTER_E, "+-", _EXPONENT_SIGN),
    (_LETTER_E, "0123456789", _EXPONENT),
    (_EXPONENT_SIGN, "0123456789", _EXPONENT),
    (_EXPONENT, "0123456789", _EXPONENT),
):
    _state.update(dict.fromkeys(_characters, _following))

_MEANINGS: Final[dict[str, JsonValue]] = {"true": True, "false": False, "null": None}
_WHOLE_WORD: Final = ScalarState(_MEANINGS.__getitem__)

for _word in _MEANINGS:
    _state = SCALAR
    for _letter in _word[:-1]:
        _state = _state.setdefault(_letter, ScalarState())
    _state[_word[-1]] = _WHOLE_WORD


def excess_digit(number: str, allowed: int) -> int | None:
    """Return the position of the first digit beyond those allowed, if there is one."""
    digits = [index for index, char in enumerate(number) if char.isdigit()]
    return digits[allowed] if len(digits) > allowed else None
