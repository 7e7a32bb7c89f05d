"""A schema as a graph: every subschema once, by its place, with the others that it names.

``$ref`` and ``allOf`` ask several things of one value. A ``Node`` is that set, as tables, made when
it is first needed. So one value has one node, and only ``anyOf`` and ``oneOf`` branch.

The lists here decide what is checked early, and what waits until a value is complete: keywords
about one value (``ALONE``) are asked of the library in a small schema of their own, those that hold
subschemas which are not followed (``WAITING``) with the whole subschema.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from math import floor
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from argstream.errors import SchemaError
from argstream.jsonstream import Kind
from argstream.jsonstream._fragments import KINDS, kind_of
from argstream.validation._dialects import (
    BY_NAME,
    DYNAMIC,
    ONE,
    SEVERAL,
    Dialect,
    JsonSchema,
    Library,
    SchemaLimits,
    dialect_of,
    escaped,
    is_local,
    is_valid,
    local_pointer,
    steps,
)

if TYPE_CHECKING:
    import jsonschema_rs

# Keywords that wait, and the kinds of value that they are about.
ALONE: Final[dict[str, tuple[Kind, ...]]] = {
    "minimum": ("number",),
    "maximum": ("number",),
    "exclusiveMinimum": ("number",),
    "exclusiveMaximum": ("number",),
    "multipleOf": ("number",),
    "minLength": ("string",),
    "pattern": ("string",),
    "format": ("string",),
    "contentEncoding": ("string",),
    "contentMediaType": ("string",),
    "minItems": ("array",),
    "uniqueItems": ("array",),
    "minProperties": ("object",),
    "dependentRequired": ("object",),
}
WAITING: Final[dict[str, tuple[Kind, ...]]] = {
    "not": KINDS,
    "if": KINDS,
    "contains": ("array",),
    "unevaluatedItems": ("array",),
    "unevaluatedProperties": ("object",),
    "dependentSchemas": ("object",),
    "dependencies": ("object",),
}
_IN_PLACE: Final = (
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "dependencies",
)

# References to anchors and to other documents. How large a schema they make of it cannot be told,
# but so few cannot make a value take long.
_MAX_NAMED: Final = 40


class Subschema:
    """One subschema, and what it names: by keyword, then by name or position."""

    def __init__(self, pointer: str, value: JsonSchema, home: str) -> None:
        self.pointer = pointer
        self.home = home
        """Where the document begins that it belongs to: ``$id`` begins one inside of another."""
        self.value = value
        self.keywords: dict[str, Any] = {} if isinstance(value, bool) else value
        self.target: Subschema | None = None  # what its ``$ref`` refers to, in the same document
        self.names: dict[str, dict[Any, Subschema]] = {}
        self.height = 0  # how many there are below it, one naming the next, about the same value
        self.weight = 1  # how many there are about the same value, written out

    def one(self, keyword: str) -> "Subschema | None":
        return self.names.get(keyword, {}).get(None)

    def several(self, keyword: str) -> "list[Subschema]":
        return [named for key, named in self.names.get(keyword, {}).items() if key is not None]

    def by_name(self, keyword: str) -> "dict[str, Subschema]":
        return self.names.get(keyword, {})

    def in_place(self) -> "Iterator[Subschema]":
        """Yield the subschemas that apply to the same value."""
        if self.target is not None:
            yield self.target
        for keyword in _IN_PLACE:
            yield from self.names.get(keyword, {}).values()

    def all(self) -> "Iterator[Subschema]":
        if self.target is not None:
            yield self.target
        for named in self.names.values():
            yield from named.values()


def read_subschemas(
    schema: JsonSchema, dialect: Dialect, limits: SchemaLimits, others: Iterable[JsonSchema] = ()
) -> Subschema | None:
    """Return the root of the graph; None if only the library can check by this schema.

    ``others`` are documents that it may refer to. They are only measured.
    """
    root, named = _read(schema, dialect, limits)
    is_followed = dialect.is_known and not named
    named += sum(_read(other, dialect_of(other), limits)[1] for other in others)
    if named > _MAX_NAMED:
        message = f"it has more than {_MAX_NAMED} references that are no JSON pointers"
        raise SchemaError(message, reason="too_complex")
    return root if is_followed else None


def _read(schema: JsonSchema, dialect: Dialect, limits: SchemaLimits) -> tuple[Subschema, int]:
    """Read a document. Also returns how many references in it are by name."""
    reader = _Reader(schema, dialect, limits)
    root = reader.read("")
    while reader.unread:
        reader.read_names(reader.unread.pop())
    _measure(root)
    _refuse_expansion(root, limits.max_expansion)
    return root, reader.named


class _Reader:
    """Reads a document from its root, following references; no recursion, for they may be many."""

    def __init__(self, schema: JsonSchema, dialect: Dialect, limits: SchemaLimits) -> None:
        self.named = 0  # references to another document, or to what cannot be told by its place
        self._schema = schema
        self._is_declared = isinstance(schema, dict) and "$schema" in schema
        self._address = str(schema.get("$id", "")) if isinstance(schema, dict) else ""
        self._dialect = dialect
        self._limits = limits
        self._known: dict[str, Subschema] = {}
        self.unread: list[Subschema] = []

    def read(self, pointer: str, value: Any = None, home: str = "") -> Subschema:
        if (known := self._known.get(pointer)) is not None:
            return known
        if value is None:
            value = self._find(pointer)
        if not isinstance(value, dict | bool):
            message = f"a schema is an object or a boolean, not {type(value).__name__}"
            raise SchemaError(message, pointer=f"#{pointer}")
        if len(self._known) == self._limits.max_subschemas:
            message = f"it has more than {self._limits.max_subschemas} subschemas"
            raise SchemaError(message, reason="too_many")
        subschema = self._known[pointer] = Subschema(pointer, value, home)
        self.unread.append(subschema)
        return subschema

    def read_names(self, subschema: Subschema) -> None:
        keywords, pointer = subschema.keywords, subschema.pointer
        is_document = "$id" in keywords and pointer != ""
        if is_document or any(keyword in keywords for keyword in DYNAMIC):
            self.named += 1
        home = pointer if is_document else subschema.home
        reference = keywords.get("$ref")
        if reference is not None:
            self._read_reference(subschema, reference, home)
            if self._dialect.ref_stands_alone:
                subschema.keywords = {}
                return
        has_lists = self._dialect.items_may_be_list
        if has_lists and "prefixItems" in keywords and not self._is_declared:
            message = "it mixes items as a list, of draft 7, with prefixItems: use one of the two"
            raise SchemaError(message, pointer=f"#{pointer}")
        for keyword in ONE:
            if isinstance(value := keywords.get(keyword), dict | bool):
                subschema.names[keyword] = {None: self.read(f"{pointer}/{keyword}", value, home)}
        for keyword in SEVERAL:
            if keyword == ("prefixItems" if has_lists else "items"):
                continue
            if isinstance(values := keywords.get(keyword), list):
                subschema.names[keyword] = {
                    index: self.read(f"{pointer}/{keyword}/{index}", value, home)
                    for index, value in enumerate(values)
                }
        for keyword in BY_NAME:
            if isinstance(named := keywords.get(keyword), dict):
                subschema.names[keyword] = {
                    name: self.read(f"{pointer}/{keyword}/{escaped(name)}", value, home)
                    for name, value in named.items()
                    if not isinstance(value, list)  # dependencies on mere names
                }

    def _read_reference(self, subschema: Subschema, reference: object, home: str) -> None:
        if not isinstance(reference, str):
            raise SchemaError("$ref is a string", pointer=f"#{subschema.pointer}/$ref")
        if not home and self._address and reference.startswith(f"{self._address}#"):
            reference = reference.removeprefix(self._address)  # as some name themselves
        if is_local(reference):
            subschema.target = self.read(home + local_pointer(reference), home=home)
        else:
            self.named += 1

    def _find(self, pointer: str) -> Any:
        value: Any = self._schema
        for name in steps(pointer):
            try:
                value = value[int(name)] if isinstance(value, list) else value[name]
            except (KeyError, IndexError, ValueError, TypeError):
                message = f"$ref to #{pointer}, but there is nothing at that place"
                raise SchemaError(message, reason="unresolvable") from None
        return value


def _measure(root: Subschema) -> None:
    """Compute height and weight. Rejects a schema that refers to itself for the same value."""
    done: set[Subschema] = set()
    for start in _reachable(root):
        on_the_way: dict[Subschema, Iterator[Subschema]] = {}
        subschema: Subschema | None = start
        while subschema is not None:
            if subschema in on_the_way:
                message = "it refers to itself without going into the value, so it says nothing"
                raise SchemaError(message, pointer=f"#{subschema.pointer}", reason="loop")
            if subschema not in done:
                on_the_way[subschema] = subschema.in_place()
            subschema = None
            while on_the_way and subschema is None:
                last, following = on_the_way.popitem()
                if (subschema := next(following, None)) is None:
                    done.add(last)
                    last.height = max((1 + named.height for named in last.in_place()), default=0)
                    last.weight = 1 + sum(named.weight for named in last.in_place())
                else:
                    on_the_way[last] = following


def _reachable(root: Subschema) -> list[Subschema]:
    found = {root: None}
    unseen = [root]
    while unseen:
        for subschema in unseen.pop().all():
            if subschema not in found:
                found[subschema] = None
                unseen.append(subschema)
    return list(found)


def _refuse_expansion(root: Subschema, limit: int) -> None:
    """Refuse a schema that is small to write and huge to check.

    A reference back to what is being expanded counts once: there the library remembers.
    """
    sizes: dict[Subschema, int] = {}
    way: dict[Subschema, list[Subschema]] = {root: list(root.all())}
    while way:
        subschema, unseen = way.popitem()
        if unseen:
            following = unseen.pop()
            way[subschema] = unseen
            if following not in sizes and following not in way:
                way[following] = list(following.all())
        else:
            sizes[subschema] = 1 + sum(sizes.get(named, 1) for named in subschema.all())
            if sizes[subschema] > limit:
                message = f"with every $ref written out, it has more than {limit} subschemas"
                raise SchemaError(message, pointer=f"#{subschema.pointer}", reason="too_complex")


Start: TypeAlias = Literal["dead", "sure", "open"]
"""What the first character of a value tells: it is wrong, it is right, or that is still open."""

_FEW: Final = 1000  # characters of candidates, all of whose beginnings are kept
_MOST_NODES: Final = 4096  # sets of subschemas; what would need more is checked at its close
_KEPT: Final = 1024  # children by key: more keys than this are not names but data
_FILTERED: Final = 1000  # candidates that are tried out one by one; more are looked at as they are
_PLAIN: Final = {"enum", "type", "title", "description", "default", "examples", "$comment"}
_MAX_HEIGHT: Final = 64  # of unions in unions; beyond, they are checked at the close


class Late:
    """A check that the library makes when a value is complete."""

    def __init__(self, library: Library, subschema: Subschema, keywords: tuple[str, ...]) -> None:
        """Check these keywords alone; if there are none, the whole subschema."""
        self._library = library
        self._validator: jsonschema_rs.Validator | None = None
        self.subschema = subschema
        self._keywords = keywords

    def refuses(self, value: object) -> bool:
        if self._validator is None:
            told = self.subschema.keywords
            self._validator = (
                self._library.of({keyword: told[keyword] for keyword in self._keywords})
                if self._keywords
                else self._library.at(self.subschema.pointer)
            )
        return not is_valid(self._validator, value)

    def blamed(self, value: object) -> str:
        """Return the keyword that rejects the value."""
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
        """Return the range of strings that go on with a piece after this many characters."""
        strings = self.strings
        if high - low == 1:
            return (low, high) if strings[low].startswith(piece, length) else (low, low)
        end = length + len(piece)
        return (
            bisect_left(strings, piece, low, high, key=lambda string: string[length:end]),
            bisect_right(strings, piece, low, high, key=lambda string: string[length:end]),
        )


class Choice(NamedTuple):
    """The branches of an ``anyOf`` or ``oneOf``. A branch that is None accepts every value."""

    keyword: Literal["anyOf", "oneOf"]
    branches: "tuple[Node | None, ...]"


class Node:
    """A set of subschemas that one value must match, all of them, compiled into tables."""

    def __init__(self, nodes: "Nodes", subschemas: tuple[Subschema, ...]) -> None:
        self._nodes = nodes
        self.subschemas = subschemas
        self.max_length = _least(subschemas, "maxLength")
        self.max_items = _least(subschemas, "maxItems")
        self.max_properties = _least(subschemas, "maxProperties")
        self.required_names: tuple[str, ...] = tuple(
            dict.fromkeys(name for one in subschemas for name in one.keywords.get("required", ()))
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
        """Return the node for the value of a key; None if it may be anything."""
        try:
            return self.children[key]
        except KeyError:
            child = self._nodes.node(part for one in self._objects for part in one.parts(key))
            if len(self.children) < _KEPT:
                self.children[key] = child
            return child

    def item(self, index: int) -> "Node | None":
        """Return the node for an item; None if it may be anything."""
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
        """Check these subschemas only when a value is complete."""
        late = [self._nodes.late(subschema) for subschema in subschemas]
        self.late = dict.fromkeys(KINDS, late)
        self.starts = dict.fromkeys(KINDS, "open")
        self.ends = dict.fromkeys(KINDS, True)

    def _read_candidates(self, kinds: set[Kind]) -> Candidates | None:
        """Keep the values of ``enum`` and ``const`` that all other keywords allow."""
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

    def __init__(self, library: Library, subschema: Subschema) -> None:
        self.properties = subschema.by_name("properties")
        self.patterns = [
            (library.of({"pattern": pattern}), part)
            for pattern, part in subschema.by_name("patternProperties").items()
        ]
        self.additional = subschema.one("additionalProperties")

    @staticmethod
    def is_needed(subschema: Subschema) -> bool:
        keywords = ("properties", "patternProperties", "additionalProperties")
        return any(keyword in subschema.names for keyword in keywords)

    def parts(self, key: str) -> list[Subschema]:
        parts = [self.properties[key]] if key in self.properties else []
        parts += [part for pattern, part in self.patterns if is_valid(pattern, key)]
        return parts or ([] if self.additional is None else [self.additional])


class Nodes:
    def __init__(self, library: Library, max_branches: int) -> None:
        self.library = library
        self.max_branches = max_branches
        self._nodes: dict[frozenset[Subschema], Node | None] = {}
        self._late: dict[Subschema, Late] = {}

    def late(self, subschema: Subschema) -> Late:
        if subschema not in self._late:
            self._late[subschema] = Late(self.library, subschema, ())
        return self._late[subschema]

    def node(self, parts: Iterable[Subschema]) -> Node | None:
        """Return the node for values that must match all of these; None if every value does."""
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
        made = Node(self, asked_of_one_value(given))
        is_free = all(start == "sure" for start in made.starts.values())
        self._nodes[key] = None if is_free else made
        return self._nodes[key]


def asked_of_one_value(parts: Iterable[Subschema]) -> tuple[Subschema, ...]:
    """Add what they refer to with ``$ref`` and ``allOf``."""
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


def _prefix(subschema: Subschema) -> tuple[list[Subschema], Subschema | None]:
    """Return the subschemas of the first items, and the one of all others."""
    listed = subschema.several("items")
    if listed:
        return listed, subschema.one("additionalItems")
    return subschema.several("prefixItems"), subschema.one("items")


def _kinds(subschemas: Iterable[Subschema]) -> tuple[set[Kind], bool]:
    """Return the kinds that are allowed, and whether a number must be an integer."""
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
    """Return True if a subschema requires nothing but one of these values."""
    is_plain = subschema.keywords.keys() <= _PLAIN and not isinstance(subschema.value, bool)
    return is_plain and _candidates(subschema) is values
