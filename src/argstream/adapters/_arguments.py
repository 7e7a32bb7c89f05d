"""The arguments of a call in whatever form they come: text, an object, or nothing."""

from collections.abc import Hashable

from argstream.adapters._payloads import UnreadableError, refuse_duplicate_keys
from argstream.deltas import ArgumentText, ArgumentValue, Delta

__all__ = ["arguments"]


def arguments(key: Hashable, given: object, payload: object = None) -> list[Delta]:
    """Say what these arguments add to a call.

    An object is refused if its payload gives a key twice; leave that out where it is checked once
    for many calls.
    """
    if given is None or given == "":
        return []
    if isinstance(given, str):
        return [ArgumentText(key, given)]
    if not isinstance(given, dict):
        raise UnreadableError(f"the arguments of a call are a {type(given).__name__}")
    refuse_duplicate_keys(payload)
    return [ArgumentValue(key, (), given)]
