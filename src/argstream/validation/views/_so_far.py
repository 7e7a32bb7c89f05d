"""A model and a list of which parts have settled, to be used as if they were whole."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias, overload

from argstream.jsonstream import PENDING, JsonPath
from argstream.settled import LiveCall, is_settled, value_at
from argstream.validation.views._field_validators import FieldPart, Outcome, Shape, ValuePart
from argstream.validation.views._live_call import (
    invalid,
    is_certain,
    kind_at,
    settled_items,
    unavailable,
)

__all__ = ["Fields", "ObjectSoFar"]

_Stage: TypeAlias = Literal["ready", "open", "waiting"]


class Fields:
    """The fields of one object of a call."""

    def __init__(self, call: LiveCall, base: JsonPath, shape: Shape) -> None:
        self._call = call
        self._base = base
        self.shape = shape
        self._root: Any = None
        self._outcomes: dict[str, Outcome] = {}
        self._more: dict[str, Outcome] = {}
        self._views: dict[JsonPath, Any] = {}

    def is_ready(self, part: FieldPart) -> bool:
        """Say whether a field has settled: its value, or that it has none."""
        return self._stage(part)[0] == "ready"

    def outcome(self, part: FieldPart) -> Outcome | None:
        """Say what pydantic made of a field; None if it has not settled.

        Whoever is to have the value gets it from ``value``.
        """
        stage, path = self._stage(part)
        return self._judge(part, path) if stage == "ready" else None

    def value(self, name: str) -> Any:
        """Give a field's value, or a view of it while it is open, or raise and say why not."""
        part = self.shape.fields.get(name)
        if part is None:
            return self._unknown(name)
        stage, path = self._stage(part)
        if stage == "ready":
            outcome = self._taken(part, path)
            if outcome.message is not None:
                raise invalid(self._call, path, repr(name), outcome.message) from outcome.cause
            if outcome.value is not PENDING:
                return outcome.value
        elif stage == "open":
            view = self._view(part, path)
            if view is not None:
                return view
        raise unavailable(self._call, path, repr(name), self._reason(part, stage, path))

    def _stage(self, part: FieldPart) -> tuple[_Stage, JsonPath]:
        stage, path = self._own_stage(part)
        return ("waiting" if stage == "ready" and self._awaited(part) else stage), path

    def _awaited(self, part: FieldPart) -> list[str]:
        """Name the fields that it waits for. Those have nothing to wait for that it has not."""
        return [one.name for one in part.waits_for if self._own_stage(one)[0] != "ready"]

    def _own_stage(self, part: FieldPart) -> tuple[_Stage, JsonPath]:
        """Say how far a field's own value has come, and where that is."""
        call, base = self._call, self._base
        if not is_certain(call):
            return "waiting", base + part.places[0]
        is_closed = is_settled(call, base)
        for place in part.places:
            path = base + place
            if kind_at(call, path) is None:
                continue
            if is_closed:
                return "ready", path
            if place != part.early_place:
                return "waiting", path
            return ("ready" if is_settled(call, path) else "open"), path
        return ("ready" if is_closed else "waiting"), base + part.places[0]

    def _judge(self, part: FieldPart, path: JsonPath) -> Outcome:
        self._begin_anew_if_read_anew()
        known = self._outcomes.get(part.name)
        if known is None:
            earlier = {}
            for other in part.waits_for:
                found = self._taken(other, self._own_stage(other)[1])
                if found.message is None and found.value is not PENDING:
                    earlier[other.name] = found.value
            known = part.judge_field(value_at(self._call.partial, path), earlier)
            self._outcomes[part.name] = known
        return known

    def _taken(self, part: FieldPart, path: JsonPath) -> Outcome:
        """Give an outcome away: it is not kept if its value can be used only once."""
        outcome = self._judge(part, path)
        if part.is_used_up(outcome.value):
            del self._outcomes[part.name]
        return outcome

    def _view(self, part: ValuePart, path: JsonPath) -> Any:
        if path not in self._views:
            self._views[path] = view_of(self._call, path, part)
        return self._views[path]

    def _unknown(self, name: str) -> Any:
        """Give what is no field, but is kept by a model that keeps it."""
        path = (*self._base, name)
        if self.shape.takes_more and not name.startswith("__"):
            if kind_at(self._call, path) is not None and is_settled(self._call, path):
                return self._kept(name, path)
            raise unavailable(self._call, path, repr(name))
        known = ", ".join(self.shape.fields) or "none"
        kind = KeyError if self.shape.has_keys else AttributeError
        raise kind(f"{name!r} is no field of {self.shape.name}; so far there are only: {known}")

    def _kept(self, name: str, path: JsonPath) -> Any:
        part = self.shape.more
        if part is None:
            return value_at(self._call.partial, path)
        self._begin_anew_if_read_anew()
        if name not in self._more:
            self._more[name] = part.judge(value_at(self._call.partial, path))
        outcome = self._more[name]
        if part.is_used_up(outcome.value):
            del self._more[name]
        if outcome.message is not None:
            raise invalid(self._call, path, repr(name), outcome.message) from outcome.cause
        return outcome.value

    def _begin_anew_if_read_anew(self) -> None:
        if self._call.partial is not self._root:
            self._root = self._call.partial
            self._outcomes.clear()
            self._more.clear()

    def _reason(self, part: FieldPart, stage: _Stage, path: JsonPath) -> str:
        if stage != "waiting" or kind_at(self._call, path) is None:
            return ""
        if self._own_stage(part)[0] == "ready":
            return f"its validator may look at {', '.join(map(repr, self._awaited(part)))}"
        if path != self._base + part.places[0]:
            return f"{part.places[0][0]!r} may come yet, and would count instead"
        return ""


class ObjectSoFar:
    """An object while it is written: it has the attributes of its model that have settled."""

    __slots__ = ("_argstream_fields",)

    def __init__(self, fields: Fields) -> None:
        self._argstream_fields = fields

    def __getattr__(self, name: str) -> Any:
        if name in ObjectSoFar.__slots__:  # of an object that copy or pickle has just made
            raise AttributeError(name)
        if self._argstream_fields.shape.has_keys:
            raise AttributeError(f"this has keys, not attributes: [{name!r}]")
        return self._argstream_fields.value(name)

    def __getitem__(self, key: str) -> Any:
        if not self._argstream_fields.shape.has_keys:
            raise TypeError(f"this has attributes, not keys: .{key}")
        return self._argstream_fields.value(key)

    def __dir__(self) -> list[str]:
        return list(self._argstream_fields.shape.fields)

    def __repr__(self) -> str:
        fields = self._argstream_fields
        settled = [name for name, part in fields.shape.fields.items() if fields.is_ready(part)]
        return f"<{fields.shape.name} so far: {', '.join(settled) or 'nothing has settled'}>"


class ItemsSoFar(Sequence[Any]):
    """A list while it is written: it has the items that have settled."""

    def __init__(self, call: LiveCall, base: JsonPath, part: ValuePart) -> None:
        self._call = call
        self._base = base
        self._part = part
        self._root: Any = None
        self._outcomes: dict[int, Outcome] = {}
        self._views: dict[int, Any] = {}
        self._counted = 0

    def __len__(self) -> int:
        self._counted = settled_items(self._call, self._base, self._counted)
        return self._counted

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        count = len(self)
        if isinstance(index, slice):
            return [self._item(one) for one in range(*index.indices(count))]
        number = index + count if index < 0 else index
        path = (*self._base, number)
        if 0 <= number < count:
            return self._item(number)
        if number == count and is_certain(self._call) and kind_at(self._call, path) is not None:
            if number not in self._views:
                self._views[number] = view_of(self._call, path, self._part)
            if self._views[number] is not None:
                return self._views[number]
        raise unavailable(self._call, path, f"item {index}")

    def __iter__(self) -> Iterator[Any]:
        number = 0
        while number < len(self):
            yield self._item(number)
            number += 1

    def __repr__(self) -> str:
        count = len(self)
        return f"<{count} item{'' if count == 1 else 's'} so far>"

    def _item(self, number: int) -> Any:
        if self._call.partial is not self._root:
            self._root = self._call.partial
            self._outcomes.clear()
        path = (*self._base, number)
        if number not in self._outcomes:
            self._outcomes[number] = self._part.judge(value_at(self._call.partial, path))
        outcome = self._outcomes[number]
        if self._part.is_used_up(outcome.value):
            del self._outcomes[number]
        if outcome.message is not None:
            raise invalid(self._call, path, f"item {number}", outcome.message) from outcome.cause
        return outcome.value


def view_of(call: LiveCall, path: JsonPath, part: ValuePart) -> Any:
    """Give a view of a value that is open; None if it has no parts to look at."""
    kind = kind_at(call, path)
    if kind is dict and part.shape is not None:
        return ObjectSoFar(Fields(call, path, part.shape))
    if kind is list and part.items is not None:
        return ItemsSoFar(call, path, part.items)
    return None
