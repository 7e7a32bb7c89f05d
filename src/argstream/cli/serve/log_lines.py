"""What ``argstream serve`` tells on standard error: a line each, and nothing acts there."""

import logging
from types import TracebackType
from typing import Final, TypeAlias

from argstream.cli._options import LogLevel
from argstream.sanitise import visible, visible_line

__all__ = ["tell_log"]

_SPELLED: Final = "⟦"
_ErrorInfo: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)


def tell_log(level: LogLevel) -> None:
    """Have what happens told on standard error; of what others log, only what went wrong."""
    number = getattr(logging, level.upper())
    handler = logging.StreamHandler()
    handler.setFormatter(_Visible("%(levelname)s: %(message)s"))
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[handler])
    logging.getLogger("argstream").setLevel(number)


class _Visible(logging.Formatter):
    """Shows what models, providers and clients wrote such that it looks like nothing else."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - its name there
        # What the server has made visible already is not spelled out once more.
        return _SPELLED.join(map(visible_line, super().formatMessage(record).split(_SPELLED)))

    def formatException(self, ei: _ErrorInfo) -> str:  # noqa: N802 - as above
        return visible(super().formatException(ei))
