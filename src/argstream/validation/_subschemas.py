"""A schema as a graph: every subschema once, by its place, with the others that it names.

Here is decided what can be judged early, and what waits for the close of a value: keywords about
one value alone (``alone``) are asked of the library in a small schema of their own, those that hold
subschemas which we do not follow (``waiting``) with the whole subschema.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from argstream.errors import SchemaError
from argstream.jsonstream import Kind
from argstream.jsonstream.kinds import KINDS
from argstream.validation._dialects import (
    BY_NAME,
    DYNAMIC,
    ONE,
    SEVERAL,
    Dialect,
    JsonSchema,
    dialect_of,
)
from argstream.validation._pointers import escaped, is_local, local_pointer, steps
from argstream.validation.limits import SchemaLimits

__all__ = ["ALONE", "WAITING", "Subschema", "read_subschemas"]

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

    __slots__ = (
        "height",
        "home",
        "keywords",
        "names",
        "pointer",
        "target",
        "value",
        "weight",
    )

    def __init__(self, pointer: str, value: JsonSchema, home: str) -> None:
        self.pointer = pointer
        self.home = home
        """Where the document begins that it belongs to: ``$id`` begins one inside of another."""
        self.value = value
        self.keywords: dict[str, Any] = {} if isinstance(value, bool) else value
        self.target: Subschema | None = None
        """What its ``$ref`` refers to, in the same document."""
        self.names: dict[str, dict[Any, Subschema]] = {}
        self.height = 0
        """How many there are below it, one naming the next, about the same value."""
        self.weight = 1
        """How many there are about the same value, written out."""

    def one(self, keyword: str) -> "Subschema | None":
        """Give the subschema of a keyword that has one."""
        return self.names.get(keyword, {}).get(None)

    def several(self, keyword: str) -> "list[Subschema]":
        """Give the subschemas of a keyword that has a list of them."""
        return [named for key, named in self.names.get(keyword, {}).items() if key is not None]

    def by_name(self, keyword: str) -> "dict[str, Subschema]":
        """Give the subschemas of a keyword that has them by name."""
        return self.names.get(keyword, {})

    def in_place(self) -> "Iterator[Subschema]":
        """Give those that are about the same value."""
        if self.target is not None:
            yield self.target
        for keyword in _IN_PLACE:
            yield from self.names.get(keyword, {}).values()

    def all(self) -> "Iterator[Subschema]":
        """Give all that it names."""
        if self.target is not None:
            yield self.target
        for named in self.names.values():
            yield from named.values()


def read_subschemas(
    schema: JsonSchema, dialect: Dialect, limits: SchemaLimits, others: Iterable[JsonSchema] = ()
) -> Subschema | None:
    """Give the root of the graph; None if only the library can judge by this schema.

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
    """Read a document; say how much in it refers to names, or may be referred to by one."""
    reader = _Reader(schema, dialect, limits)
    root = reader.read("")
    reader.read_all()
    _measure(root)
    _refuse_expansion(root, limits.max_expansion)
    return root, reader.named


class _Reader:
    """Reads a document from its root, following references; no recursion, for they may be many."""

    def __init__(self, schema: JsonSchema, dialect: Dialect, limits: SchemaLimits) -> None:
        self.named = 0
        """References to another document, or to what cannot be told by its place."""
        self._schema = schema
        self._is_declared = isinstance(schema, dict) and "$schema" in schema
        self._address = str(schema.get("$id", "")) if isinstance(schema, dict) else ""
        self._dialect = dialect
        self._limits = limits
        self._known: dict[str, Subschema] = {}
        self._unread: list[Subschema] = []

    def read(self, pointer: str, value: Any = None, home: str = "") -> Subschema:
        """Give the subschema at this place of a document."""
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
        self._unread.append(subschema)
        return subschema

    def read_all(self) -> None:
        """Read what is named by what has been read, until there is nothing more."""
        while self._unread:
            self._read_names(self._unread.pop())

    def _read_names(self, subschema: Subschema) -> None:
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
    """Find height and weight of each; refuse those that lead back to themselves in place."""
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
