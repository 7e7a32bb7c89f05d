"""Fragments → values, for those who do not care how a value came about."""

from typing import Any

from argstream.jsonstream.fragments import Done, Fragment, JsonValue, Start
from argstream.jsonstream.pending import PENDING, Pending

__all__ = ["FragmentAggregator"]


class FragmentAggregator:
    """Puts values together again from their fragments.

    The values are its own: unlike ``Parser.value`` and ``Done.value`` of a container, they are
    shared with nobody.

    >>> from argstream.jsonstream import parse
    >>> aggregator = FragmentAggregator()
    >>> [value for f in parse('{"a": [1, "x"]}') if (value := aggregator.push(f)) is not PENDING]
    [1, 'x', [1, 'x'], {'a': [1, 'x']}]
    """

    def __init__(self) -> None:
        self._open: list[Any] = []  # the containers around the next value, outermost first

    def push(self, fragment: Fragment) -> JsonValue | Pending:
        """Return the value that this fragment completes, at any path; PENDING for all others."""
        match fragment:
            case Start(kind="object"):
                self._open.append({})
            case Start(kind="array"):
                self._open.append([])
            case Done(path, value):
                if isinstance(value, dict | list):
                    value = self._open.pop()  # ours, not the parser's
                match self._open:
                    case [*_, dict() as parent]:
                        parent[path[-1]] = value
                    case [*_, list() as parent]:
                        parent.append(value)
                    case _:
                        pass  # the root
                return value
            case _:
                pass
        return PENDING
