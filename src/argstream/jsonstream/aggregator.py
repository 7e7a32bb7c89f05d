"""Fragments → values, for those who do not care how a value came about."""

from typing import Any

from argstream.jsonstream.fragments import Done, Fragment, JsonValue, Start, Text
from argstream.jsonstream.pending import PENDING, Pending

__all__ = ["FragmentAggregator"]


class FragmentAggregator:
    """Puts values together again from fragments alone.

    The values are its own: unlike ``Parser.value`` and ``Done.value`` of a container, they are
    shared with nobody.

    >>> from argstream.jsonstream import parse
    >>> aggregator = FragmentAggregator()
    >>> [value for f in parse('{"a": [1, "x"]}') if (value := aggregator.push(f)) is not PENDING]
    [1, 'x', [1, 'x'], {'a': [1, 'x']}]
    """

    def __init__(self) -> None:
        # A dict or list for each open container, a list of pieces for a string, [] for a scalar.
        self._open: list[Any] = []

    def push(self, fragment: Fragment) -> JsonValue | Pending:
        """Return the value that this fragment completes, at any path; PENDING for all others."""
        match fragment:
            case Start(kind="object"):
                self._open.append({})
            case Start():
                self._open.append([])
            case Text(text=text):
                self._open[-1].append(text)
            case Done(path=path, value=value):
                made = self._open.pop()
                if isinstance(value, str):
                    value = "".join(made)
                elif isinstance(value, dict | list):
                    value = made
                if self._open:
                    parent = self._open[-1]
                    if isinstance(parent, dict):
                        parent[path[-1]] = value
                    else:
                        parent.append(value)
                return value
            case _:
                pass
        return PENDING
