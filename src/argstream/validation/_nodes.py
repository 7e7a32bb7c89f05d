"""What a value must be: several subschemas at once, as tables that can be looked up.

``$ref`` and ``allOf`` say that a value must fit several subschemas. A ``Node`` is such a set, read
once: which kinds of value may begin, which strings it may become, what its children must be. So one
value is one node, however its schema is written, and only ``anyOf`` and ``oneOf`` make branches.
Nodes are made when they are first needed and kept: there are at most as many as a call has values.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable
from math import floor
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from argstream.jsonstream import Kind
from argstream.jsonstream.kinds import KINDS, kind_of
from argstream.validation._library import Library, is_valid
from argstream.validation._subschemas import ALONE, WAITING, Subschema

if TYPE_CHECKING:
    import jsonschema_rs

__all__ = ["Candidates", "Choice", "Node", "Nodes"]

Start: TypeAlias = Literal["dead", "sure", "open"]
"""What the first character of a value tells: it is wrong, it is right, or that is still open."""

_FEW: Final = 1000  # characters of candidates, all of whose beginnings are kept
_MOST_NODES: Final = 4096  # sets of subschemas; what would need more is judged at its close
_KEPT: Final = 1024  # children by key: more keys than this are not names but data
_FILTERED: Final = 1000  # candidates that are tried out one by one; more are looked at as they are
_PLAIN: Final = {"enum", "type", "title", "description", "default", "examples", "$comment"}
_MAX_HEIGHT: Final = 64  # of unions in unions; beyond, they are judged at the close


class Late:
    """What is asked of the library when a value is done."""

    __slots__ = ("_keywords", "_library", "_validator", "subschema")

    def __init__(self, library: Library, subschema: Subschema, keywords: tuple[str, ...]) -> None:
        """Ask about these keywords, which stand alone; if there are none, about the whole."""
        self._library = library
        self._validator: jsonschema_rs.Validator | None = None
        self.subschema = subschema
        self._keywords = keywords

    def refuses(self, value: object) -> bool:
        """Say whether a whole value is not valid."""
        if self._validator is None:
            self._validator = self._compile()
        return not is_valid(self._validator, value)

    def _compile(self) -> "jsonschema_rs.Validator":
        if not self._keywords:
            return self._library.at(self.subschema.pointer)
        told = self.subschema.keywords
        return self._library.of({keyword: told[keyword] for keyword in self._keywords})

    def blamed(self, value: object) -> str:
        """Name the keyword that a value, which was refused, does not fit."""
        keywords = self.subschema.keywords
        for keyword in self._keywords or ("enum", "const", *ALONE):
            if keyword in keywords:
                validator = self._library.of({keyword: keywords[keyword]})
                if not is_valid(validator, value):
                    return keyword
        waiting = [name for name in (*WAITING, "anyOf", "oneOf") if name in keywords]
        return waiting[0] if waiting else ""


class Candidates:
    """The strings that a value may be, in order, so that a prefix is a range of them."""

    __slots__ = ("all", "beginnings", "strings")

    def __init__(self, strings: Iterable[str]) -> None:
        self.all = frozenset(strings)
        self.strings = sorted(self.all)
        self.beginnings: frozenset[str] | None = None
        """All that the strings begin with; None if that would be too much."""
        if sum(map(len, self.strings)) <= _FEW:
            self.beginnings = frozenset(
                string[:length] for string in self.strings for length in range(1, len(string) + 1)
            )

    def narrow(self, low: int, high: int, length: int, piece: str) -> tuple[int, int]:
        """Give the range of those that go on with a piece after this many characters."""
        strings = self.strings
        if high - low == 1:
            return (low, high) if strings[low].startswith(piece, length) else (low, low)
        end = length + len(piece)
        return (
            bisect_left(strings, piece, low, high, key=lambda string: string[length:end]),
            bisect_right(strings, piece, low, high, key=lambda string: string[length:end]),
        )


class Choice(NamedTuple):
    """The branches of an ``anyOf`` or ``oneOf``. None is a branch that anything fits."""

    keyword: Literal["anyOf", "oneOf"]
    branches: "tuple[Node | None, ...]"


class Node:
    """A set of subschemas that one value must fit, all of them."""

    __slots__ = (
        "_by_index", "_nodes", "_objects", "_prefixes", "_tuple_length", "candidates", "children",
        "choices", "ends", "height", "is_impossible", "is_integer", "is_plain", "late",
        "max_items", "max_length", "max_properties", "name_rules", "reads_text", "required",
        "required_names", "starts", "subschemas", "takes_keys", "values",
    )  # fmt: skip

    def __init__(self, nodes: "Nodes", subschemas: tuple[Subschema, ...]) -> None:
        self._nodes = nodes
        self.subschemas = subschemas
        self.max_length = _least(subschemas, "maxLength")
        self.max_items = _least(subschemas, "maxItems")
        self.max_properties = _least(subschemas, "maxProperties")
        self.required_names = tuple(
            dict.fromkeys(name for subschema in subschemas for name in _required(subschema))
        )
        self.required = frozenset(self.required_names)
        self.name_rules = [
            Late(nodes.library, names, ())
            for subschema in subschemas
            if (names := subschema.one("propertyNames")) is not None
        ]
        self._objects = [
            _Object(nodes.library, one) for one in subschemas if _Object.is_needed(one)
        ]
        prefixes = map(_prefix, subschemas)
        self._prefixes = [(first, rest) for first, rest in prefixes if first or rest is not None]
        self._tuple_length = max((len(first) for first, _ in self._prefixes), default=0)
        self.children: dict[str, Node | None] = {}
        self._by_index: dict[int, Node | None] = {}
        limits_keys = self.max_properties is not None
        self.takes_keys = limits_keys or bool(self._objects or self.name_rules)
        """Whether keys must be looked at at all."""
        self.late: dict[Kind, list[Late]] = {kind: [] for kind in KINDS}
        self.choices: list[Choice] = []
        for subschema in subschemas:
            self._read_choices(subschema)
            self._read_late(subschema)
        self.height = max((one.height for one in subschemas), default=0)
        kinds, self.is_integer = _kinds(subschemas)
        self.values: list[Any] = []
        """What it may be, if that is a list; for strings, ``candidates`` has it too."""
        self.candidates = self._read_candidates(kinds)
        self.reads_text = self.candidates is not None or self.max_length is not None
        """Whether a string must be looked at while it grows."""
        self.starts: dict[Kind, Start] = {kind: self._start(kind, kinds) for kind in KINDS}
        """What a value's first character tells."""
        self.is_plain = not (self.choices or self.name_rules or limits_keys)
        """Whether nothing of it must be remembered while a value is written."""
        self.ends: dict[Kind, bool] = {kind: bool(self.late[kind]) for kind in KINDS}
        self.ends["object"] |= bool(self.required)
        self.ends["string"] |= self.candidates is not None
        """Whether a whole value must be looked at; of numbers, those with a fraction aside."""
        self.is_impossible = all(start == "dead" for start in self.starts.values())
        """Whether no value fits at all."""

    def child(self, key: str) -> "Node | None":
        """Say what the value of a key must be; None if it may be anything."""
        try:
            return self.children[key]
        except KeyError:
            child = self._nodes.node(part for one in self._objects for part in one.parts(key))
            if len(self.children) < _KEPT:
                self.children[key] = child
            return child

    def item(self, index: int) -> "Node | None":
        """Say what an item must be; None if it may be anything."""
        if index > self._tuple_length:  # noqa: PLR1730 - quicker than min
            index = self._tuple_length
        try:
            return self._by_index[index]
        except KeyError:
            parts = [first[index] if index < len(first) else rest for first, rest in self._prefixes]
            found = self._nodes.node(part for part in parts if part is not None)
            self._by_index[index] = found
            return found

    def _start(self, kind: Kind, kinds: set[Kind]) -> Start:
        if kind not in kinds:
            return "dead"
        is_open = {
            "object": bool(self.takes_keys or self.required),
            "array": bool(self._prefixes or self.max_items is not None),
            "string": self.reads_text,
            "number": self.is_integer,
        }
        return "open" if self.choices or self.late[kind] or is_open.get(kind) else "sure"

    def _read_choices(self, subschema: Subschema) -> None:
        limit = self._nodes.max_branches
        keywords: tuple[Literal["anyOf", "oneOf"], ...] = ("anyOf", "oneOf")
        for keyword in keywords:
            branches = subschema.several(keyword)
            if not branches:
                continue
            if subschema.weight > limit or subschema.height > _MAX_HEIGHT:
                for late in self.late.values():
                    late.append(self._nodes.late(subschema))
                return
            nodes = tuple(self._nodes.node([branch]) for branch in branches)
            if keyword == "oneOf" or None not in nodes:
                self.choices.append(Choice(keyword, nodes))

    def _read_late(self, subschema: Subschema) -> None:
        for kind in KINDS:
            if any(kind in kinds for name, kinds in WAITING.items() if name in subschema.keywords):
                self.late[kind].append(self._nodes.late(subschema))
            elif alone := tuple(
                name
                for name, kinds in ALONE.items()
                if kind in kinds and name in subschema.keywords
            ):
                self.late[kind].append(Late(self._nodes.library, subschema, alone))

    def wait_for(self, subschemas: Iterable[Subschema]) -> None:
        """Judge by these only when a value is done."""
        late = [self._nodes.late(subschema) for subschema in subschemas]
        self.late = dict.fromkeys(KINDS, late)
        self.starts = dict.fromkeys(KINDS, "open")
        self.ends = dict.fromkeys(KINDS, True)

    def _read_candidates(self, kinds: set[Kind]) -> Candidates | None:
        """Keep of ``enum`` and ``const`` what all the other keywords allow as well."""
        lists = [found for one in self.subschemas if (found := _candidates(one)) is not None]
        if not lists:
            return None
        chosen = min(lists, key=len)
        self.values = [value for value in chosen if kind_of(value) in kinds]
        others = [
            self._nodes.late(one) for one in self.subschemas if not _is_mere_list(one, chosen)
        ]
        if is_tried := len(self.values) <= _FILTERED:
            for late in others:
                self.values = [value for value in self.values if not late.refuses(value)]
        kinds &= {kind_of(value) for value in self.values}
        whole = [self._nodes.late(subschema) for subschema in self.subschemas]
        for kind in kinds:
            is_decided = kind == "string" or kind == "null"  # by the candidates, or the kind alone
            self.late[kind] = whole if not is_decided else [] if is_tried else others
        return Candidates(value for value in self.values if isinstance(value, str))


class _Object:
    """What one subschema says of the children of an object."""

    __slots__ = ("additional", "patterns", "properties")

    def __init__(self, library: Library, subschema: Subschema) -> None:
        self.properties = subschema.by_name("properties")
        self.patterns = [
            (library.of({"pattern": pattern}), part)
            for pattern, part in subschema.by_name("patternProperties").items()
        ]
        self.additional = subschema.one("additionalProperties")

    @staticmethod
    def is_needed(subschema: Subschema) -> bool:
        """Say whether a subschema says anything of them."""
        keywords = ("properties", "patternProperties", "additionalProperties")
        return any(keyword in subschema.names for keyword in keywords)

    def parts(self, key: str) -> list[Subschema]:
        """Give the subschemas for the value of a key."""
        parts = [self.properties[key]] if key in self.properties else []
        parts += [part for pattern, part in self.patterns if is_valid(pattern, key)]
        return parts or ([] if self.additional is None else [self.additional])


class Nodes:
    """All nodes of a schema, by the subschemas that they are made of."""

    def __init__(self, library: Library, max_branches: int) -> None:
        self.library = library
        self.max_branches = max_branches
        self._nodes: dict[frozenset[Subschema], Node | None] = {}
        self._late: dict[Subschema, Late] = {}

    def late(self, subschema: Subschema) -> Late:
        """Give what asks the library about a whole subschema."""
        if subschema not in self._late:
            self._late[subschema] = Late(self.library, subschema, ())
        return self._late[subschema]

    def node(self, parts: Iterable[Subschema]) -> Node | None:
        """Give the node for values that must fit all of these; None if any value does."""
        given = dict.fromkeys(parts)
        key = frozenset(given)
        try:
            return self._nodes[key]
        except KeyError:
            pass
        if len(self._nodes) >= _MOST_NODES:
            node = Node(self, ())
            node.wait_for(given)
            return node
        made = Node(self, _asked_of_one_value(given))
        is_free = all(start == "sure" for start in made.starts.values())
        self._nodes[key] = None if is_free else made
        return self._nodes[key]


def _asked_of_one_value(parts: Iterable[Subschema]) -> tuple[Subschema, ...]:
    """Add what they refer to, and ``allOf``."""
    found = dict.fromkeys(parts)
    unseen = deque(found)
    while unseen:
        subschema = unseen.popleft()
        further = subschema.several("allOf")
        if subschema.target is not None:
            further.append(subschema.target)
        for one in further:
            if one not in found:
                found[one] = None
                unseen.append(one)
    return tuple(found)


def _least(subschemas: Iterable[Subschema], keyword: str) -> int | None:
    limits = [one.keywords[keyword] for one in subschemas if keyword in one.keywords]
    return floor(min(limits)) if limits else None


def _required(subschema: Subschema) -> list[str]:
    names: list[str] = subschema.keywords.get("required", [])
    return names


def _prefix(subschema: Subschema) -> tuple[list[Subschema], Subschema | None]:
    """Say what the first items must be, and all others."""
    listed = subschema.several("items")
    if listed:
        return listed, subschema.one("additionalItems")
    return subschema.several("prefixItems"), subschema.one("items")


def _kinds(subschemas: Iterable[Subschema]) -> tuple[set[Kind], bool]:
    """Say which kinds of value may come, and whether a number must be whole."""
    kinds, is_integer = set(KINDS), False
    for subschema in subschemas:
        if subschema.value is False:
            kinds.clear()
        types = subschema.keywords.get("type")
        if types is None:
            continue
        named = [types] if isinstance(types, str) else types
        if "integer" in named and "number" not in named:
            is_integer = True
        kinds &= {"number" if name == "integer" else name for name in named}
    return kinds, is_integer


def _candidates(subschema: Subschema) -> list[Any] | None:
    if "const" in subschema.keywords:
        return [subschema.keywords["const"]]
    found: list[Any] | None = subschema.keywords.get("enum")
    return found


def _is_mere_list(subschema: Subschema, values: list[Any]) -> bool:
    """Say whether a subschema asks for nothing but one of these values."""
    is_plain = subschema.keywords.keys() <= _PLAIN and not isinstance(subschema.value, bool)
    return is_plain and _candidates(subschema) is values
