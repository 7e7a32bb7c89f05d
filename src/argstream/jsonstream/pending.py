"""The mark for a value that is not there yet: ``None`` would be JSON's null."""

from enum import Enum
from typing import Final

__all__ = ["PENDING", "Pending"]


class Pending(Enum):
    """The type of PENDING, an enum of one so that type checkers narrow ``is PENDING``."""

    PENDING = "pending"

    def __repr__(self) -> str:
        return "PENDING"


PENDING: Final = Pending.PENDING
