"""How much the parser accepts before it calls a text hostile."""

from dataclasses import dataclass, fields
from typing import Final

from argstream.errors import UsageError

__all__ = ["DEFAULT_LIMITS", "Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on one JSON text; passing one ends it with ``Invalid`` and a reason of its own."""

    max_depth: int = 256
    """Objects and arrays inside each other."""
    max_chars: int = 64 * 1024 * 1024
    """Characters of the whole text."""
    max_key_chars: int = 64 * 1024
    """Characters of one key, as written between its quotes."""
    max_digits: int = 4300
    """Digits of one number: CPython itself refuses to convert longer integers."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise UsageError(
                    f"Limits({field.name}={value!r}): give a whole number of at least 1"
                )


DEFAULT_LIMITS: Final = Limits()
