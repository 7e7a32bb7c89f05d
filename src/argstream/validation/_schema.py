"""A JSON Schema, compiled once, that checks many values while they are written.

Without unions, the state is a stack of nodes, and the first mismatch rejects the call. From a value
with a union on (``_Branches``), each open value has a list of checks: one for its node and one for
each branch that may still match. A check that fails also fails the checks that depend on it. Equal
checks of one value are shared, so no schema makes the work grow exponentially. A string that is
valid whatever follows costs nothing.

jsonschema-rs checks the other keywords when a value is complete, and all arguments at the end. Only
its ``is_valid`` is used: it is linear, while its messages are exponential for nested unions.
"""

import json
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from math import isfinite
from operator import attrgetter, itemgetter
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from argstream.checks import Rejection
from argstream.errors import SchemaError
from argstream.events import ArgumentsError, PolicyDecision
from argstream.jsonstream import Done, Fragment, JsonPath, Key, Kind, Start, Text, parse
from argstream.jsonstream._fragments import KIND_OF_TYPE, KIND_WORDS
from argstream.sanitise import visible_line
from argstream.validation._compile import Choice, Node, Nodes, read_subschemas
from argstream.validation._dialects import (
    DEFAULT_SCHEMA_LIMITS,
    JsonSchema,
    Library,
    SchemaLimits,
    declares_dialect,
    dialect_of,
    escaped,
)

SchemaVerdict: TypeAlias = Literal["open", "rejected", "valid"]
SchemaSource: TypeAlias = Mapping[str, Any] | bool


class Failure(NamedTuple):
    """Why a value does not match. It becomes a message only if the call is rejected for it."""

    keyword: str  # start, key, candidates and integer mean several; empty: the whole schema
    path: JsonPath
    offset: int | None
    node: Any = None  # a Node; None for the whole schema
    found: Any = None  # a kind, a value, the start of a string, or the missing names
    limit: Any = None  # the keyword's value; for ``candidates``, whether the string continues
    causes: "tuple[Failure, ...]" = ()  # why the branches of a union do not match


class _StringCheck:
    """The state of one string that is checked while it grows."""

    __slots__ = ("first", "length", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.length = 0  # so far
        self.first = 0  # the first candidate that begins with the string so far

    def feed(self, fragment: Text, string_start: int) -> tuple[int, Failure] | None:
        """Check the next piece. Return its number of valid characters if it fails, and why."""
        node, before, (path, text) = self.node, self.length, fragment
        self.length = before + len(text)
        if (strings := node.candidates) is None:
            limit = node.max_length
            if limit is None or self.length <= limit:
                return None
            failure = Failure("maxLength", path, string_start + 1 + limit, node, limit=limit)
            return limit - before, failure
        if strings[self.first].startswith(text, before):
            return None
        start = strings[self.first][:before] + text
        first = bisect_left(strings, start, self.first)
        if first < len(strings) and strings[first].startswith(start):
            self.first = first
            return None
        nearest = strings[max(self.first, first - 1) : first + 1]
        good = max(_common_length(start, one) for one in nearest)
        offset, found = string_start + 1 + good, start[: good + 1]
        return good - before, Failure("candidates", path, offset, node, found, limit=True)


class _NodeCheck:
    """The state of one node for one value."""

    __slots__ = ("dependents", "failure", "keys", "node", "open_choices")

    def __init__(self, node: Node, dependents: "list[_NodeCheck | _OpenChoice]") -> None:
        self.node = node
        self.dependents = dependents  # they fail if this check fails
        self.failure: Failure | None = None
        self.open_choices: list[_OpenChoice] = []
        self.keys = 0


class _OpenChoice:
    __slots__ = ("choice", "failures", "holder", "path", "sure")

    def __init__(self, choice: Choice, holder: _NodeCheck, path: JsonPath) -> None:
        self.choice = choice
        self.holder = holder
        self.path = path
        self.failures: list[Failure] = []
        self.sure = 0  # branches that match whatever follows

    @property
    def alive(self) -> int:
        return len(self.choice.branches) - len(self.failures)


_Children: TypeAlias = dict[Node, list[_NodeCheck | _OpenChoice]]
"""The nodes of the next value, each with the checks that depend on it."""


class Schema:
    r"""A JSON Schema of draft 2020-12. The keywords of draft 7 are supported too.

    >>> from argstream.jsonstream import Parser
    >>> schema = Schema({"properties": {"mode": {"enum": ["read", "write"]}}})
    >>> check, parser = schema.check(), Parser(unique_keys=True)
    >>> check.feed(parser.feed('{"mode": "w')), check.verdict
    (None, 'open')
    >>> check.feed(parser.feed('ipe_every')).error.message
    '\'mode\' must be one of "read" or "write", not "wi…'
    """

    def __init__(
        self,
        schema: SchemaSource,
        *,
        limits: SchemaLimits | None = None,
        formats: bool = False,
        resources: Mapping[str, Any] | None = None,
    ) -> None:
        """Compile a schema. Raises ``SchemaError`` if it cannot be used.

        With ``formats``, ``format`` is validated; by default it is an annotation. ``resources`` has
        other documents that the schema refers to, by address. Nothing is ever fetched.
        """
        limits = limits or DEFAULT_SCHEMA_LIMITS
        if not isinstance(schema, Mapping | bool):
            raise SchemaError(f"schema must be an object or a boolean, not {type(schema).__name__}")
        plain = _plain(schema, limits.max_depth)
        documents = {
            uri: _plain(other, limits.max_depth) for uri, other in (resources or {}).items()
        }
        self.source: JsonSchema = plain
        """The schema as JSON."""
        dialect = dialect_of(plain, documents)
        if isinstance(plain, dict) and not declares_dialect(plain, documents):
            plain.pop("$schema", None)  # the library would try to resolve it
        root = read_subschemas(plain, dialect, limits, documents.values())
        self._library = Library(plain, dialect, documents, formats=formats)
        nodes = Nodes(self._library, limits.max_branches)
        self._root = None if root is None else nodes.node([root])

    def check(self) -> "SchemaCheck":
        """Return a check for one value."""
        return SchemaCheck(self._root, self._library)

    def is_valid(self, value: object) -> bool:
        """Return True if a complete value is valid."""
        return self._library.is_valid(value)


def _plain(schema: object, depth: int, pointer: str = "#") -> Any:
    """Copy JSON up to a depth, so that later changes have no effect."""
    if isinstance(schema, float) and not isfinite(schema):
        raise SchemaError(f"{schema} is not a JSON number", pointer=pointer)
    if isinstance(schema, str | int | float | bool) or schema is None:
        return schema
    if depth == 0:
        raise SchemaError("it is nested too deeply", reason="too_deep")
    if isinstance(schema, Mapping):
        for key in schema:
            if not isinstance(key, str):
                raise SchemaError(f"a key must be a string, not {key!r}", pointer=pointer)
        return {
            key: _plain(part, depth - 1, f"{pointer}/{escaped(key)}")
            for key, part in schema.items()
        }
    if isinstance(schema, list | tuple):
        return [_plain(part, depth - 1, f"{pointer}/{i}") for i, part in enumerate(schema)]
    raise SchemaError(f"it is not JSON: {type(schema).__name__}", pointer=pointer)


class SchemaCheck:
    """Checks one value. Feed it the fragments of ``Parser(unique_keys=True)``.

    Without a root node, only complete values are checked.
    """

    def __init__(self, root: Node | None, library: Library) -> None:
        self.verdict: SchemaVerdict = "open"
        self.error: ArgumentsError | None = None
        self.policy_decision: PolicyDecision | None = None
        self._library = library
        self._node = root
        self._stack: list[Node | None] = []  # of the containers around the innermost one
        self._container: Node | None = None  # of the innermost open container
        self._child: Node | None = None  # of the value of the last key
        self._scalar: Node | None = None  # of the open value, if it is not a container
        self._text: _StringCheck | None = None  # of an open string, if its text must be checked
        self._start = 0  # the offset of that string
        self._branches: _Branches | None = None  # checks the open value, if it has a union
        self._depth = 0  # of the value with a union

    def feed(self, fragments: Sequence[Fragment]) -> Rejection | None:
        """Check the next fragments. Return a rejection if the value cannot become valid."""
        if self.verdict != "open":
            return None
        cut: str | None = None
        for fragment in fragments:
            if self._branches is not None:
                cut = self._feed_branches(self._branches, fragment)
            elif type(fragment) is Text:
                if self._text is None or (found := self._text.feed(fragment, self._start)) is None:
                    continue
                good, failure = found
                cut = fragment.text[: good + 1]
                self._fail(failure)
            elif type(fragment) is Start:
                self._feed_start(fragment)
            elif type(fragment) is Done:
                self._feed_done(fragment)
            elif type(fragment) is Key:
                self._feed_key(fragment)
            if self.error is not None:
                seen = next(at for at, one in enumerate(fragments, 1) if one is fragment)
                return Rejection(self.error, seen, cut, None if cut is None else self._start)
        return None

    def finish(self, arguments: dict[str, Any] | str, *, as_read: bool) -> ArgumentsError | None:
        if not as_read or self.verdict == "open":
            self._conclude(arguments, None)
            if self.verdict == "rejected":
                self._explain(arguments)
        return self.error

    def _explain(self, value: object) -> None:
        """Find a specific reason for a rejected value by feeding its JSON to a new check."""
        again = SchemaCheck(self._node, self._library)
        again.feed(list(parse(json.dumps(value))))
        if again.error is not None:
            self.error = replace(again.error, offset=None)  # of another text

    def _fail(self, failure: Failure) -> None:
        self.verdict, self.error = "rejected", error_of(failure)

    def _conclude(self, value: object, offset: int | None) -> None:
        if self._library.is_valid(value):
            self.verdict, self.error = "valid", None
        else:
            self._fail(Failure("", (), offset))

    def _feed_key(self, fragment: Key) -> None:
        container = self._container
        if container is not None and container.accepts_keys:
            path, offset = fragment
            key: Any = path[-1]
            try:
                child = self._child = container.children[key]
            except KeyError:
                child = self._child = container.child(key)
            if child is not None and child.is_impossible:
                self._fail(Failure("key", path, offset, container))

    def _feed_start(self, fragment: Start) -> None:
        path, kind, offset = fragment
        container = self._container
        if container is None:
            node = None if path else self._node
        elif type(last := path[-1]) is int:
            if container.max_items is not None and last >= container.max_items:
                limit = container.max_items
                self._fail(Failure("maxItems", path[:-1], offset, container, limit=limit))
                return
            node = container.item(last)
        else:
            node, self._child = self._child, None
        if node is not None:
            start = node.starts[kind]
            if start == "sure":
                node = None
            elif start == "dead":
                self._fail(Failure("start", path, offset, node, kind))
                return
            elif not node.is_plain:
                self._branches, self._depth = _Branches(node), len(path)
                self._feed_branches(self._branches, fragment)
                return
        if kind == "object" or kind == "array":
            self._stack.append(container)
            self._container = node
        else:
            self._scalar = node
            if node is not None and kind == "string" and node.reads_text:
                self._text, self._start = _StringCheck(node), offset

    def _feed_done(self, fragment: Done) -> None:
        path, value, offset = fragment
        kind = KIND_OF_TYPE[type(value)]
        if kind == "object" or kind == "array":
            node, self._container = self._container, self._stack.pop()
        else:
            node, self._text = self._scalar, None
        if node is not None and (node.ends[kind] or (type(value) is float and node.is_integer)):
            failure = check_complete(node, kind, fragment)
            if failure is not None:
                self._fail(failure)
                return
        if not path:
            self._conclude(value, offset)

    def _feed_branches(self, branches: "_Branches", fragment: Fragment) -> str | None:
        cut = None
        if type(fragment) is Text:
            cut = branches.feed_text(fragment)
        elif type(fragment) is Start:
            branches.feed_start(fragment)
        elif type(fragment) is Done:
            branches.feed_done(fragment)
        elif type(fragment) is Key:
            branches.feed_key(fragment)
        failure = branches.failure
        if failure is not None:
            self._start = branches.start
            self._fail(failure)
        elif type(fragment) is Done and len(fragment.path) == self._depth:
            self._branches = None
            if not fragment.path:
                self._conclude(fragment.value, fragment.offset)
        return cut


class _Branches:
    """Checks one value by a node with a union, from its first fragment to its last."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._root: _NodeCheck | None = None
        self._stack: list[list[_NodeCheck]] = []  # of the containers around the innermost one
        self._open: list[_NodeCheck] = []  # of the innermost open container
        self._text: list[tuple[_NodeCheck, _StringCheck]] = []  # of the open string
        self.start = 0  # the offset of that string
        self._children: _Children = {}  # of the next value
        self._frame: list[_NodeCheck] = []  # of the newest value
        self._known: dict[Node, _NodeCheck] = {}  # by node, because equal checks are shared

    @property
    def failure(self) -> Failure | None:
        return None if self._root is None else self._root.failure

    def feed_key(self, fragment: Key) -> None:
        path, offset = fragment
        key: Any = path[-1]
        children: _Children = {}
        for check in self._open:
            node = check.node
            if check.failure is not None or not node.accepts_keys:
                continue
            check.keys += 1
            limit = node.max_properties
            if limit is not None and check.keys > limit:
                self._fail(check, Failure("maxProperties", path[:-1], offset, node, limit=limit))
            for rule in node.name_rules:
                if rule.rejects(key):
                    names = rule.subschema.value
                    self._fail(check, Failure("propertyNames", path, offset, node, limit=names))
            child = node.child(key)
            if child is None:
                continue
            if child.is_impossible:
                self._fail(check, Failure("key", path, offset, node))
            else:
                children.setdefault(child, []).append(check)
        self._children = children

    def feed_start(self, fragment: Start) -> None:
        path, kind, offset = fragment
        if self._root is None:
            children: _Children = {self._node: []}
        elif type(path[-1]) is int:
            children = self._item_nodes(path[-1], path, offset)
        else:
            children, self._children = self._children, {}
        frame = self._frame = []
        self._known = {}
        for node, dependents in children.items():
            self._begin(node, dependents, fragment)
        if kind == "object" or kind == "array":
            self._stack.append(self._open)
            self._open = frame
        elif kind == "string":
            self.start = offset
            self._text = [(one, _StringCheck(one.node)) for one in frame if one.node.reads_text]

    def _item_nodes(self, index: int, path: JsonPath, offset: int) -> _Children:
        children: _Children = {}
        for check in self._open:
            node = check.node
            if check.failure is not None:
                continue
            if (limit := node.max_items) is not None and index >= limit:
                self._fail(check, Failure("maxItems", path[:-1], offset, node, limit=limit))
            elif (child := node.item(index)) is not None:
                children.setdefault(child, []).append(check)
        return children

    def _begin(
        self, node: Node, dependents: list[_NodeCheck | _OpenChoice], fragment: Start
    ) -> _NodeCheck | None:
        """Open the check of a value; None if every value of this kind is valid."""
        path, kind, offset = fragment
        start = node.starts[kind]
        if start == "sure":
            return None
        check = self._known[node] = _NodeCheck(node, dependents)
        if self._root is None:
            self._root = check
        if start == "dead":
            self._fail(check, Failure("start", path, offset, node, kind))
            return check
        self._frame.append(check)
        for choice in node.choices:
            self._begin_choice(_OpenChoice(choice, check, path), fragment)
        return check

    def _begin_choice(self, choice: _OpenChoice, fragment: Start) -> None:
        path, _, offset = fragment
        choice.holder.open_choices.append(choice)
        for node in choice.choice.branches:
            if node is None:
                choice.sure += 1
            elif (branch := self._known.get(node)) is not None:  # share the check
                branch.dependents.append(choice)
                if branch.failure is not None and (lost := _remove_branch(choice, branch.failure)):
                    self._fail(choice.holder, lost)
            elif self._begin(node, [choice], fragment) is None:
                choice.sure += 1
        if choice.choice.keyword == "oneOf" and choice.sure > 1:
            self._fail(choice.holder, Failure("oneOf", path, offset))

    def feed_text(self, fragment: Text) -> str | None:
        """Check a piece of a string. Return its text up to the first wrong character, or None."""
        failures = []
        for check, string in self._text:
            if check.failure is None and (found := string.feed(fragment, self.start)) is not None:
                failures.append((*found, check))
        # In the order of the text, so that chunking does not matter (invariant 1).
        for good, failure, check in sorted(failures, key=itemgetter(0)):
            self._fail(check, failure)
            if self.failure is not None:
                return fragment.text[: good + 1]
        return None

    def feed_done(self, fragment: Done) -> None:
        kind = KIND_OF_TYPE[type(fragment.value)]
        if kind == "object" or kind == "array":
            frame, self._open = self._open, self._stack.pop()
        else:
            frame, self._text = self._frame, []
        if frame:
            # Branches before the nodes that have the union.
            for check in frame if len(frame) == 1 else sorted(frame, key=attrgetter("node.height")):
                if check.failure is None:
                    failure = check_complete(check.node, kind, fragment)
                    choices = (one for one in check.open_choices if one.choice.keyword == "oneOf")
                    if failure is None and any(choice.alive > 1 for choice in choices):
                        failure = Failure("oneOf", fragment.path, fragment.offset)
                    if failure is not None:
                        self._fail(check, failure)
                check.open_choices = []  # breaks the reference cycle

    def _fail(self, check: _NodeCheck, failure: Failure) -> None:
        """Fail a check and all that depend on it, without recursion: values may be deep."""
        failing = [(check, failure)]
        while failing:
            check, failure = failing.pop()
            if check.failure is not None:
                continue
            check.failure = failure
            for dependent in check.dependents:
                if isinstance(dependent, _NodeCheck):
                    failing.append((dependent, failure))
                elif (lost := _remove_branch(dependent, failure)) is not None:
                    failing.append((dependent.holder, lost))


def _remove_branch(choice: _OpenChoice, failure: Failure) -> Failure | None:
    """Remove a branch from a choice. Return the failure of the choice if it was the last."""
    choice.failures.append(failure)
    if choice.alive:
        return None
    causes = tuple(choice.failures)
    return Failure(choice.choice.keyword, choice.path, failure.offset, causes=causes)


def _common_length(first: str, second: str) -> int:
    """Return how many characters two strings begin with in common."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))


def check_complete(node: Node, kind: Kind, fragment: Done) -> Failure | None:
    path, value, offset = fragment
    if isinstance(value, dict):
        if not node.required.keys() <= value.keys():
            missing = [name for name in node.required if name not in value]
            return Failure("required", path, offset, node, missing)
    elif isinstance(value, str):
        strings = node.candidates
        if strings is not None and strings[(at := bisect_left(strings, value)) : at + 1] != [value]:
            return Failure("candidates", path, offset, node, value)
    elif isinstance(value, float) and node.is_integer and not value.is_integer():
        return Failure("integer", path, offset, node, value)
    for late in node.late[kind]:
        if late.rejects(value):
            keyword = late.failed_keyword(value)
            if keyword in ("enum", "const") and node.values:
                return Failure("candidates", path, offset, node, value)
            return Failure(keyword, path, offset, node, value, late.subschema.keywords.get(keyword))
    return None


# Messages for values that do not match a schema, which a model can act on.

_MAX_CHARS: Final = 60  # of a value
_MAX_LISTED: Final = 12  # names or values
_MAX_CAUSES: Final = 4  # branches of a union in a message
_MAX_EXAMINED: Final = 100  # branches of a union that are examined
_MAX_DEPTH: Final = 2  # of nested unions
_KINDS: Final = KIND_WORDS | {"integer": "a whole number", "boolean": "true or false"}
_LIMITS: Final[dict[str, str]] = {
    "minimum": "must be at least {limit}",
    "maximum": "must be at most {limit}",
    "exclusiveMinimum": "must be above {limit}",
    "exclusiveMaximum": "must be below {limit}",
    "multipleOf": "must be a multiple of {limit}",
    "minLength": "must have at least {limit} characters",
    "maxLength": "must have at most {limit} characters",
    "pattern": "must match the pattern {limit}",
    "format": "must have the format {limit}",
    "contentEncoding": "must be encoded as {limit}",
    "contentMediaType": "must be of the media type {limit}",
    "minItems": "must have at least {limit} items",
    "maxItems": "must have at most {limit} items",
    "uniqueItems": "must not have the same item twice",
    "minProperties": "must have at least {limit} properties",
    "maxProperties": "must have at most {limit} properties",
    "dependentRequired": "must have the properties that go together: {limit}",
    "contains": "must contain an item that matches {limit}",
    "not": "must not match {limit}",
    "enum": "must be one of {limit}",
    "const": "must be {limit}",
    "if": "must match the conditions of the schema (if, then, else)",
    "unevaluatedItems": "must have no items that the schema does not allow",
    "unevaluatedProperties": "must have no properties that the schema does not allow",
    "dependentSchemas": "must match the schemas for the properties that it has: {limit}",
    "dependencies": "must match the schemas for the properties that it has: {limit}",
}


def error_of(failure: Failure) -> ArgumentsError:
    failure = _likely(failure)
    keyword, message = _message(failure)
    return ArgumentsError("schema", message, failure.offset, failure.path, keyword)


def _likely(failure: Failure) -> Failure:
    """Return the failure of the branch of a union that the model probably meant.

    It failed last. The other branches expect another kind, or another value of a discriminator.
    """
    while failure.causes:
        likely = {
            id(cause): cause for cause in failure.causes if not _is_unlikely(cause, failure.path)
        }
        (last, *others) = likely.values() or (failure,)
        if others or last is failure or last.offset != failure.offset:
            break
        failure = last
    return failure


def _is_unlikely(cause: Failure, union: JsonPath) -> bool:
    if cause.path == union:
        return cause.keyword == "start"
    has_list = cause.node is not None and bool(cause.node.values)
    return cause.keyword == "candidates" or (cause.keyword == "start" and has_list)


def _message(failure: Failure, depth: int = 0) -> tuple[str | None, str]:
    where = _where(failure.path)
    match failure.keyword:
        case "start":
            return _start(failure, where)
        case "key":
            return _key(failure)
        case "candidates":
            return _candidate(failure, where)
        case "integer":
            return "type", f"{where} must be a whole number, not {_json(failure.found)}"
        case "required":
            return "required", _required(failure)
        case "propertyNames":
            return "propertyNames", _name(failure)
        case "anyOf" | "oneOf":
            return failure.keyword, _choice(failure, where, depth)
        case "":
            return None, f"{where} must match the whole schema of the tool"
        case keyword:
            phrase = _LIMITS.get(keyword, f"must match {keyword}: {{limit}}")
            message = f"{where} {phrase.format(limit=_json(failure.limit))}"
            if isinstance(failure.found, int | float):
                message = f"{message}, not {_json(failure.found)}"
            return keyword, message


def _where(path: JsonPath) -> str:
    """Format a path as code: ``edits[0].old``."""
    if not path:
        return "the arguments"
    name = ""
    for step in path:
        if isinstance(step, int):
            name += f"[{step}]"
        elif step.isidentifier():
            name += f".{visible_line(step)}" if name else visible_line(step)
        else:
            name += f"[{_json(step)}]"
    return f"'{name}'"


def _json(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except ValueError:  # an integer with more digits than Python prints
        text = "a number that is too long"
    return visible_line(text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…")


def _list(values: Sequence[Any], word: str = "or", show: Callable[[Any], str] = _json) -> str:
    shown = [show(value) for value in values[:_MAX_LISTED]]
    if len(values) > _MAX_LISTED:
        return f"{', '.join(shown)} and {len(values) - _MAX_LISTED} more"
    if len(shown) < 2:
        return "".join(shown)
    return f"{', '.join(shown[:-1])} {word} {shown[-1]}"


def _start(failure: Failure, where: str) -> tuple[str | None, str]:
    node, kind = failure.node, failure.found
    for subschema in node.subschemas:
        if subschema.value is False:
            *parent, step = failure.path or ("",)
            if isinstance(step, int):
                return "items", f"{_where(tuple(parent))} must have at most {step} items"
            keyword = "properties" if failure.path else None
            return keyword, f"{where} must be omitted"
    if kind not in node.kinds:
        names = ["integer" if one == "number" and node.is_integer else one for one in node.kinds]
        kinds = _list([_KINDS[name] for name in names], show=str) or "absent"
        return "type", f"{where} must be {kinds}, not {_KINDS[kind]}"
    return _candidate_keyword(node), f"{where} must be {_allowed(node)}, not {_KINDS[kind]}"


def _key(failure: Failure) -> tuple[str | None, str]:
    *parent, key = failure.path
    subschemas = failure.node.subschemas
    known = list(dict.fromkeys(name for one in subschemas for name in one.by_name("properties")))
    owner = f" of {_where(tuple(parent))}" if parent else ""
    noun = "property" if parent else "argument"
    if key in known:
        return "properties", f"the {noun} {_json(key)}{owner} must be omitted"
    message = f"there is no {noun} {_json(key)}{owner}"
    if close := get_close_matches(str(key)[:_MAX_CHARS], known[:1000], n=1):
        message += f". Did you mean {_json(close[0])}?"
    if known:
        separator = "" if close else "."
        message += f"{separator} Known: {_list(known, 'and')}"
    return "additionalProperties", message


def _name(failure: Failure) -> str:
    *parent, key = failure.path
    rule = failure.limit
    hint = f": names must match {_json(rule)}" if isinstance(rule, Mapping) else ""
    owner = f" of {_where(tuple(parent))}" if parent else ""
    return f"{_json(key)} is not allowed as a name{owner}{hint}"


def _required(failure: Failure) -> str:
    names = _list(failure.found, "and")
    if not failure.path:
        is_one = len(failure.found) == 1
        return f"the argument{'' if is_one else 's'} {names} {'is' if is_one else 'are'} missing"
    return f"{_where(failure.path)} must have {names}"


def _candidate(failure: Failure, where: str) -> tuple[str | None, str]:
    node, found = failure.node, _json(failure.found)
    found = f"{found[:-1]}…" if failure.limit else found
    return _candidate_keyword(node), f"{where} must be {_allowed(node)}, not {found}"


def _candidate_keyword(node: Node) -> str:
    is_const = any("const" in one.keywords for one in node.subschemas)
    return "const" if is_const else "enum"


def _allowed(node: Node) -> str:
    values = _list(node.values)
    return f"one of {values}" if len(node.values) > 1 else values or "absent"


def _choice(failure: Failure, where: str, depth: int) -> str:
    if not failure.causes:
        return f"{where} must match only one of the alternatives (oneOf), but matches several"
    if depth == _MAX_DEPTH:
        return f"{where} must match one of its alternatives"
    # Many branches may share one failure: it is described once.
    causes = {id(cause): cause for cause in failure.causes}.values()
    likely = map(_likely, islice(causes, _MAX_EXAMINED))
    messages = list(dict.fromkeys(_message(cause, depth + 1)[1] for cause in likely))
    if len(messages) == 1:
        return messages[0]
    more = f"; and {len(messages) - _MAX_CAUSES} more" if len(messages) > _MAX_CAUSES else ""
    return (
        f"{where} must match one of the alternatives: {'; or '.join(messages[:_MAX_CAUSES])}{more}"
    )
