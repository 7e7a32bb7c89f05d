"""Every exception that argstream raises, as one small tree.

::

    ArgstreamError
    ├── UsageError     (also a ValueError) a call that cannot work: a wrong type, a limit below 1
    └── MissingExtra   (also an ImportError) a part that is not installed; says how to install it

What a *model* or a *provider* got wrong is not here: that is data. It comes as an ``Invalid``
fragment with a reason and an offset, so that one bad call never takes a stream down.
"""

__all__ = ["ArgstreamError", "MissingExtra", "UsageError"]


class ArgstreamError(Exception):
    """The root of the tree: catch this to catch them all."""


class UsageError(ArgstreamError, ValueError):
    """The caller asked for something that cannot work; the message says what to do instead."""


class MissingExtra(ArgstreamError, ImportError):  # noqa: N818 - it names what is missing
    """A part of argstream was used whose optional dependencies are not installed."""

    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs an extra: pip install 'argstream[{extra}]'")
        self.extra = extra
