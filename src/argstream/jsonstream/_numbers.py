"""Inside a number: which character may follow which, and what the whole is worth.

A state is the table of the characters that may come next. Numbers are short, so stepping through
such a table beats a compiled pattern, and it can stop and go on between any two characters.
"""

from collections.abc import Callable
from typing import Final

__all__ = ["NUMBER", "excess_digit"]


class NumberState(dict[str, "NumberState"]):
    """The characters that may come next; ``convert`` is None where a number cannot end."""

    def __init__(self, convert: Callable[[str], int | float] | None = None) -> None:
        super().__init__()
        self.convert = convert


NUMBER: Final = NumberState()
"""Before the first character."""
_MINUS: Final = NumberState()
_ZERO: Final = NumberState(int)
_INTEGER: Final = NumberState(int)
_POINT: Final = NumberState()
_FRACTION: Final = NumberState(float)
_LETTER_E: Final = NumberState()
_EXPONENT_SIGN: Final = NumberState()
_EXPONENT: Final = NumberState(float)


def _allow(state: NumberState, characters: str, following: NumberState) -> None:
    state.update(dict.fromkeys(characters, following))


_allow(NUMBER, "-", _MINUS)
for _state in (NUMBER, _MINUS):
    _allow(_state, "0", _ZERO)
    _allow(_state, "123456789", _INTEGER)
for _state in (_ZERO, _INTEGER):
    _allow(_state, ".", _POINT)
for _state in (_ZERO, _INTEGER, _FRACTION):
    _allow(_state, "eE", _LETTER_E)
_allow(_LETTER_E, "+-", _EXPONENT_SIGN)
for _states, _digits in (
    ((_INTEGER,), _INTEGER),
    ((_POINT, _FRACTION), _FRACTION),
    ((_LETTER_E, _EXPONENT_SIGN, _EXPONENT), _EXPONENT),
):
    for _state in _states:
        _allow(_state, "0123456789", _digits)


def excess_digit(number: str, allowed: int) -> int | None:
    """Return the position of the first digit beyond those allowed, if there is one."""
    digits = [index for index, char in enumerate(number) if char.isdigit()]
    return digits[allowed] if len(digits) > allowed else None
