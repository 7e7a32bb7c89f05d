"""Compiles a schema into a graph of subschemas and tables.

With ``$ref`` and ``allOf``, several subschemas apply to one value. A ``Node`` is such a set, which
is compiled when it is first needed. So a value has one node, and only unions branch.

The tables here decide which keywords are checked early. The others wait until a value is complete.
For keywords on one value (``LATE_KEYWORDS``), the library checks a small schema of only these. For
keywords with subschemas that are not followed (``WAITING``), it checks the whole subschema.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain
from math import floor
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import unquote

from argstream.errors import SchemaError
from argstream.jsonstream import Kind
from argstream.jsonstream._fragments import KINDS, kind_of
from argstream.validation._dialects import (
    DYNAMIC,
    Dialect,
    JsonSchema,
    Library,
    SchemaLimits,
    dialect_of,
    escaped,
    is_valid,
    parts_of,
)

if TYPE_CHECKING:
    import jsonschema_rs

# Keywords that are checked without the others when the value is complete, by kind of value.
LATE_KEYWORDS: Final[dict[Kind, tuple[str, ...]]] = {
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "string": ("minLength", "pattern", "format", "contentEncoding", "contentMediaType"),
    "array": ("minItems", "uniqueItems"),
    "object": ("minProperties", "dependentRequired"),
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
    *("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"),
)

# References to anchors and to other documents. Their expansion is unknown, but so few of them
# cannot make a check slow.
_MAX_NAMED: Final = 40


class Subschema:
    """One subschema, and its own subschemas: by keyword, then by name or position."""

    def __init__(self, pointer: str, value: JsonSchema, home: str) -> None:
        self.pointer = pointer
        self.home = home  # the pointer of its document: an ``$id`` starts a document inside another
        self.value = value
        self.keywords: dict[str, Any] = {} if isinstance(value, bool) else value
        self.target: Subschema | None = None  # of its ``$ref``, in the same document
        self.names: dict[str, dict[Any, Subschema]] = {}
        self.height = 0  # the longest chain of subschemas that apply to the same value
        self.weight = 1  # the number of subschemas that apply to the same value, expanded

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
    """Return the root of the graph; None if only the library can use this schema.

    ``others`` are documents that it may refer to. Only their limits are checked.
    """
    root, named = _read(schema, dialect, limits)
    is_followed = dialect.name and not named
    named += sum(_read(other, dialect_of(other), limits)[1] for other in others)
    if named > _MAX_NAMED:
        message = f"it has more than {_MAX_NAMED} references that are not JSON pointers"
        raise SchemaError(message, reason="too_complex")
    return root if is_followed else None


def _read(schema: JsonSchema, dialect: Dialect, limits: SchemaLimits) -> tuple[Subschema, int]:
    """Read a document. Return its root and the number of references by name."""
    reader = _Reader(schema, dialect, limits)
    root = reader.read("")
    while reader.unread:
        reader.read_names(reader.unread.pop())
    _measure(root, limits.max_expansion)
    return root, reader.named


class _Reader:
    """Reads a document from its root and follows references, without recursion."""

    def __init__(self, schema: JsonSchema, dialect: Dialect, limits: SchemaLimits) -> None:
        self.named = 0  # references that are not JSON pointers into this document
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
            message = f"a schema must be an object or a boolean, not {type(value).__name__}"
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
            message = "it has both items as a list (draft 7) and prefixItems. Use one of them"
            raise SchemaError(message, pointer=f"#{pointer}")
        for keyword, key, value in parts_of(keywords):
            place = f"{pointer}/{keyword}" if key is None else f"{pointer}/{keyword}/{escaped(key)}"
            if key is None or keyword != ("prefixItems" if has_lists else "items"):
                subschema.names.setdefault(keyword, {})[key] = self.read(place, value, home)

    def _read_reference(self, subschema: Subschema, reference: object, home: str) -> None:
        if not isinstance(reference, str):
            raise SchemaError("$ref must be a string", pointer=f"#{subschema.pointer}/$ref")
        if not home and self._address and reference.startswith(f"{self._address}#"):
            reference = reference.removeprefix(self._address)  # the address of this document
        if reference == "#" or reference.startswith("#/"):
            subschema.target = self.read(home + unquote(reference[1:]), home=home)
        else:
            self.named += 1

    def _find(self, pointer: str) -> Any:
        value: Any = self._schema
        for step in pointer.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            try:
                value = value[int(name)] if isinstance(value, list) else value[name]
            except (KeyError, IndexError, ValueError, TypeError):
                message = f"$ref to #{pointer}, which does not exist"
                raise SchemaError(message, reason="unresolvable") from None
        return value


def _bottom_up(
    starts: Iterable[Subschema], parts_of: Callable[[Subschema], Iterator[Subschema]]
) -> Iterator[Subschema]:
    """Yield each subschema once, after its parts, except for parts that contain it."""
    seen: set[Subschema] = set()
    open_: list[tuple[Subschema | None, Iterator[Subschema]]] = [(None, iter(starts))]
    while open_:
        subschema, parts = open_[-1]
        part = next((one for one in parts if one not in seen), None)
        if part is not None:
            seen.add(part)
            open_.append((part, parts_of(part)))
            continue
        open_.pop()
        if subschema is not None:
            yield subschema


def _measure(root: Subschema, max_expansion: int) -> None:
    """Compute height and weight. Raise for a loop, and for a small schema that is huge expanded.

    A schema is a loop if it refers to itself for the same value. For the expansion, a reference to
    a subschema that is being expanded counts once, because the library caches it.
    """
    sizes: dict[Subschema, int] = {}
    for subschema in _bottom_up([root], Subschema.all):
        sizes[subschema] = 1 + sum(sizes.get(part, 1) for part in subschema.all())
    done: set[Subschema] = set()
    for subschema in _bottom_up(sizes, Subschema.in_place):
        parts = list(subschema.in_place())
        if loop := [part for part in parts if part not in done]:
            message = "it refers to itself for the same value, which is a loop"
            raise SchemaError(message, pointer=f"#{loop[0].pointer}", reason="loop")
        done.add(subschema)
        subschema.height = max((1 + part.height for part in parts), default=0)
        subschema.weight = 1 + sum(part.weight for part in parts)
    for subschema, size in sizes.items():
        if size > max_expansion:
            message = f"with every $ref expanded, it has more than {max_expansion} subschemas"
            raise SchemaError(message, pointer=f"#{subschema.pointer}", reason="too_complex")


Start: TypeAlias = Literal["dead", "sure", "open"]
"""Whether the first character shows that a value is invalid (dead), valid (sure), or neither."""

_MAX_NODES: Final = 4096  # beyond, complete values are checked
_MAX_CHILDREN: Final = 1024  # cached by key: with more keys, the keys are data
_MAX_TESTED: Final = 1000  # candidates that are tested against the other keywords
_PLAIN: Final = {"enum", "type", "title", "description", "default", "examples", "$comment"}
_OF_PROPERTIES: Final = {"properties", "patternProperties", "additionalProperties"}
_MAX_HEIGHT: Final = 64  # of nested unions; beyond, complete values are checked


class Late:
    """A check of complete values by the library: of these keywords, or of the whole subschema."""

    def __init__(self, library: Library, subschema: Subschema, keywords: tuple[str, ...]) -> None:
        self._library = library
        self.subschema = subschema
        self._keywords = keywords

    @cached_property
    def _validator(self) -> "jsonschema_rs.Validator":
        if not self._keywords:
            return self._library.at(self.subschema.pointer)
        values = self.subschema.keywords
        return self._library.of({keyword: values[keyword] for keyword in self._keywords})

    def rejects(self, value: object) -> bool:
        return not is_valid(self._validator, value)

    def failed_keyword(self, value: object) -> str:
        keywords = self.subschema.keywords
        for keyword in self._keywords or ("enum", "const", *chain(*LATE_KEYWORDS.values())):
            if keyword in keywords:
                validator = self._library.of({keyword: keywords[keyword]})
                if not is_valid(validator, value):
                    return keyword
        return next((name for name in (*WAITING, "anyOf", "oneOf") if name in keywords), "")


class Choice(NamedTuple):
    """The branches of an ``anyOf`` or ``oneOf``. A branch that is None accepts every value."""

    keyword: Literal["anyOf", "oneOf"]
    branches: "tuple[Node | None, ...]"


class Node:
    """The subschemas that apply to one value, compiled into tables."""

    def __init__(self, nodes: "Nodes", subschemas: tuple[Subschema, ...]) -> None:
        self._nodes = nodes
        self.subschemas = subschemas
        self.max_length: int | None = _least(subschemas, "maxLength")
        self.max_items: int | None = _least(subschemas, "maxItems")
        self.max_properties: int | None = _least(subschemas, "maxProperties")
        self.required: dict[str, None] = dict.fromkeys(
            name for one in subschemas for name in one.keywords.get("required", ())
        )
        self.name_rules: list[Late] = [
            Late(nodes.library, names, ())
            for subschema in subschemas
            if (names := subschema.one("propertyNames")) is not None
        ]
        self._objects = [
            _Object(nodes.library, one)
            for one in subschemas
            if not _OF_PROPERTIES.isdisjoint(one.names)
        ]
        prefixes = map(_prefix, subschemas)
        self._prefixes = [(first, rest) for first, rest in prefixes if first or rest is not None]
        self._tuple_length = max((len(first) for first, _ in self._prefixes), default=0)
        self.children: dict[str, Node | None] = {}
        self._by_index: dict[int, Node | None] = {}
        limits_keys = self.max_properties is not None
        self.accepts_keys: bool = limits_keys or bool(self._objects or self.name_rules)
        self.late: dict[Kind, list[Late]] = {kind: [] for kind in KINDS}
        self.choices: list[Choice] = []
        for subschema in subschemas:
            self._read_choices(subschema)
            self._read_late(subschema)
        self.height: int = max((one.height for one in subschemas), default=0)
        self.is_integer: bool
        kinds, self.is_integer = _kinds(subschemas)
        self.kinds: tuple[Kind, ...] = tuple(kind for kind in KINDS if kind in kinds)
        self.values: list[Any] = []  # the values of ``enum`` or ``const``
        # Those that are strings, in order, so that those with a common prefix are neighbours.
        self.candidates: list[str] | None = self._read_candidates(kinds)
        # A string must be checked while it grows.
        self.reads_text: bool = self.candidates is not None or self.max_length is not None
        self.starts: dict[Kind, Start] = {kind: self._start(kind, kinds) for kind in KINDS}
        # The check of a value has no state.
        self.is_plain: bool = not (self.choices or self.name_rules or limits_keys)
        # A complete value must be checked. Floats where an integer is required are checked too.
        self.ends: dict[Kind, bool] = {kind: bool(self.late[kind]) for kind in KINDS}
        self.ends["object"] |= bool(self.required)
        self.ends["string"] |= self.candidates is not None
        self.is_impossible: bool = all(start == "dead" for start in self.starts.values())

    def child(self, key: str) -> "Node | None":
        """Return the node for the value of a key; None if every value is valid."""
        try:
            return self.children[key]
        except KeyError:
            child = self._nodes.node(part for one in self._objects for part in one.parts(key))
            if len(self.children) < _MAX_CHILDREN:
                self.children[key] = child
            return child

    def item(self, index: int) -> "Node | None":
        """Return the node for an item; None if every value is valid."""
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
            "object": bool(self.accepts_keys or self.required),
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
        keywords = subschema.keywords
        for kind in KINDS:
            if any(kind in kinds for name, kinds in WAITING.items() if name in keywords):
                self.late[kind].append(self._nodes.late(subschema))
            elif late := tuple(one for one in LATE_KEYWORDS.get(kind, ()) if one in keywords):
                self.late[kind].append(Late(self._nodes.library, subschema, late))

    def wait_for(self, subschemas: Iterable[Subschema]) -> None:
        """Check these subschemas only when a value is complete."""
        late = [self._nodes.late(subschema) for subschema in subschemas]
        self.late = dict.fromkeys(KINDS, late)
        self.starts = dict.fromkeys(KINDS, "open")
        self.ends = dict.fromkeys(KINDS, True)

    def _read_candidates(self, kinds: set[Kind]) -> list[str] | None:
        """Set ``values`` to those of ``enum`` and ``const`` that all other keywords allow."""
        lists = [found for one in self.subschemas if (found := _candidates(one)) is not None]
        if not lists:
            return None
        chosen = min(lists, key=len)
        self.values = [value for value in chosen if kind_of(value) in kinds]
        others = [
            self._nodes.late(one) for one in self.subschemas if not _is_plain_list(one, chosen)
        ]
        if is_tried := len(self.values) <= _MAX_TESTED:
            for late in others:
                self.values = [value for value in self.values if not late.rejects(value)]
        kinds &= {kind_of(value) for value in self.values}
        whole = [self._nodes.late(subschema) for subschema in self.subschemas]
        for kind in kinds:
            is_decided = kind == "string" or kind == "null"  # by the candidates, or the kind alone
            self.late[kind] = whole if not is_decided else [] if is_tried else others
        return sorted(value for value in self.values if isinstance(value, str))


class _Object:
    """The subschemas of one subschema for the properties of an object."""

    def __init__(self, library: Library, subschema: Subschema) -> None:
        self.properties = subschema.by_name("properties")
        self.patterns = [
            (library.of({"pattern": pattern}), part)
            for pattern, part in subschema.by_name("patternProperties").items()
        ]
        self.additional = subschema.one("additionalProperties")

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
        if key in self._nodes:
            return self._nodes[key]
        if len(self._nodes) >= _MAX_NODES:
            node = Node(self, ())
            node.wait_for(given)
            return node
        made = Node(self, with_references(given))
        is_free = all(start == "sure" for start in made.starts.values())
        self._nodes[key] = None if is_free else made
        return self._nodes[key]


def with_references(parts: Iterable[Subschema]) -> tuple[Subschema, ...]:
    """Add the subschemas that apply to the same value: targets of ``$ref``, and ``allOf``."""
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
    """Return the subschemas of the first items, and that of all other items."""
    listed = subschema.several("items")
    if listed:
        return listed, subschema.one("additionalItems")
    return subschema.several("prefixItems"), subschema.one("items")


def _kinds(subschemas: Iterable[Subschema]) -> tuple[set[Kind], bool]:
    """Return the allowed kinds, and whether a number must be an integer."""
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


def _is_plain_list(subschema: Subschema, values: list[Any]) -> bool:
    """Return True if a subschema only requires one of these values."""
    is_plain = subschema.keywords.keys() <= _PLAIN and not isinstance(subschema.value, bool)
    return is_plain and _candidates(subschema) is values
