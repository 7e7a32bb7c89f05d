"""One value judged by a schema while it is written: fragments in, the first refusal out.

Sound, not complete: a refusal means that no continuation is valid. That a value is valid is said
only when it is whole, by jsonschema-rs.

Each open value has a frame of judgements: one for its node, and one for each branch of an ``anyOf``
or ``oneOf`` that is still alive. A judgement that fails takes those down that rest on it: the one
of the value around it, or its choice if that has no other branch left. When the root's fails, the
value is refused. Two that ask the same of one value share a judgement, so there are never more at a
value than the schema has subschemas.

A character costs a constant amount of work, and inside a string that may be anything, none.
"""

import json
from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from argstream.events import ArgumentsError
from argstream.jsonstream import Done, Fragment, JsonPath, Key, Kind, Start, Text, parse
from argstream.judging import Refusal
from argstream.validation._library import Library
from argstream.validation._nodes import Choice, Node
from argstream.validation._wording import Failure, told

__all__ = ["SchemaCheck", "SchemaVerdict"]

SchemaVerdict: TypeAlias = Literal["open", "rejected", "valid"]


class _Judgement:
    """What is known of one value and one node."""

    __slots__ = ("failure", "high", "keys", "length", "low", "node", "open_choices", "rests_on_it")

    def __init__(self, node: Node, rests_on_it: "list[_Judgement | _OpenChoice]") -> None:
        self.node = node
        self.rests_on_it = rests_on_it
        self.failure: Failure | None = None
        self.open_choices: list[_OpenChoice] = []
        self.keys = 0
        self.length = 0  # characters of a string so far
        if node.candidates is not None:
            self.low, self.high = 0, len(node.candidates.strings)


class _OpenChoice:
    """What is left of the branches of a choice."""

    __slots__ = ("choice", "failures", "holder", "path", "sure")

    def __init__(self, choice: Choice, holder: _Judgement, path: JsonPath) -> None:
        self.choice = choice
        self.holder = holder
        self.path = path
        self.failures: list[Failure] = []
        self.sure = 0  # how many branches are right whatever comes

    @property
    def alive(self) -> int:
        """How many branches are left."""
        return len(self.choice.branches) - len(self.failures)


_Children: TypeAlias = dict[Node, list[_Judgement | _OpenChoice]]
"""What the next value must be, and what rests on each of that."""


class SchemaCheck:
    """Judges one value. Feed it what ``Parser(unique_keys=True)`` says of its text."""

    def __init__(self, root: Node | None, library: Library) -> None:
        """Judge by this node; if there is none, nothing is refused before the final word."""
        self.verdict: SchemaVerdict = "open"
        self.error: ArgumentsError | None = None
        self.decision = None
        """None: a schema decides nothing but valid or not."""
        self._library = library
        self._node = root
        self._root: _Judgement | None = None
        self._stack: list[list[_Judgement]] = []  # of the containers around the innermost one
        self._open: list[_Judgement] = []  # of the innermost open container
        self._scalar: list[_Judgement] = []  # of the open value that is no container
        self._kind: Kind = "null"  # of that
        self._text: list[_Judgement] = []  # of these, who must see a string's text
        self._start = 0  # where that string begins
        self._children: _Children = {}  # of the value to come

    def feed(self, fragments: Sequence[Fragment]) -> Refusal | None:
        """Take the next fragments; say if they decide against the value."""
        if self.verdict != "open":
            return None
        cut: str | None = None
        for index, fragment in enumerate(fragments):
            if type(fragment) is Text:
                if not self._text:
                    continue
                cut = self._take_text(fragment)
            elif type(fragment) is Start:
                self._take_start(fragment)
            elif type(fragment) is Done:
                self._take_done(fragment)
            elif type(fragment) is Key:
                self._take_key(fragment)
            root = self._root
            if root is not None and root.failure is not None:
                self._refuse(told(root.failure))
            if self.error is not None:
                return Refusal(self.error, index + 1, cut, None if cut is None else self._start)
        return None

    def finish(self, arguments: dict[str, Any] | str, *, as_read: bool) -> ArgumentsError | None:
        """Give the final word on a whole value."""
        if not as_read or self.verdict == "open":
            self._conclude((), arguments, None)
            if self.verdict == "rejected":
                self._explain(arguments)
        return self.error

    def _explain(self, value: object) -> None:
        """Say better why a value was refused, by reading it as if it were written just now."""
        again = SchemaCheck(self._node, self._library)
        again.feed(list(parse(json.dumps(value))))
        if again.error is not None:
            self.error = replace(again.error, offset=None)  # that text was ours

    def _refuse(self, error: ArgumentsError) -> None:
        self.verdict, self.error = "rejected", error
        self._root = None
        self._stack, self._open, self._scalar, self._text = [], [], [], []
        self._children = {}

    def _conclude(self, path: JsonPath, value: object, offset: int | None) -> None:
        if self._library.is_valid(value):
            self.verdict, self.error = "valid", None
        else:
            self._refuse(told(Failure("", path, offset)))

    # Keys and values

    def _take_key(self, fragment: Key) -> None:
        path, offset = fragment
        key: Any = path[-1]
        children: _Children = {}
        for judgement in self._open:
            node = judgement.node
            if judgement.failure is not None or not node.takes_keys:
                continue
            judgement.keys += 1
            if node.max_properties is not None and judgement.keys > node.max_properties:
                self._fail(
                    judgement,
                    Failure("maxProperties", path[:-1], offset, node, limit=node.max_properties),
                )
            for rule in node.name_rules:
                if rule.refuses(key):
                    self._fail(
                        judgement,
                        Failure("propertyNames", path, offset, node, limit=rule.subschema.value),
                    )
            child = node.child(key)
            if child is None:
                continue
            if child.is_impossible:
                self._fail(judgement, Failure("key", path, offset, node))
            elif child in children:
                children[child].append(judgement)
            else:
                children[child] = [judgement]
        self._children = children

    def _take_start(self, fragment: Start) -> None:
        path, kind, offset = fragment
        if not path:
            children: _Children = {} if self._node is None else {self._node: []}
        elif type(path[-1]) is int:
            children = self._take_item(path[-1], path, offset)
        else:
            children, self._children = self._children, {}
        frame: list[_Judgement] = []
        if children:
            known: dict[Node, _Judgement] = {}
            for node, rests_on_it in children.items():
                self._begin(node, rests_on_it, fragment, frame, known)
        if kind == "object" or kind == "array":
            self._stack.append(self._open)
            self._open = frame
        else:
            self._scalar = frame
            self._kind = kind
            if kind == "string":
                self._start = offset
                self._text = [one for one in frame if one.node.reads_text]

    def _take_item(self, index: int, path: JsonPath, offset: int) -> _Children:
        children: _Children = {}
        for judgement in self._open:
            node = judgement.node
            if judgement.failure is not None:
                continue
            if node.max_items is not None and index >= node.max_items:
                self._fail(
                    judgement, Failure("maxItems", path[:-1], offset, node, limit=node.max_items)
                )
            elif (child := node.item(index)) is not None:
                children.setdefault(child, []).append(judgement)
        return children

    def _begin(
        self,
        node: Node,
        rests_on_it: "list[_Judgement | _OpenChoice]",
        fragment: Start,
        frame: list[_Judgement],
        known: dict[Node, _Judgement],
    ) -> _Judgement | None:
        """Open the judgement of a value that begins; None if it is right whatever comes."""
        path, kind, offset = fragment
        start = node.starts[kind]
        if start == "sure":
            return None
        judgement = known[node] = _Judgement(node, rests_on_it)
        if not path and self._root is None:
            self._root = judgement
        if start == "dead":
            self._fail(judgement, Failure("start", path, offset, node, kind))
            return judgement
        frame.append(judgement)
        for choice in node.choices:
            self._begin_choice(_OpenChoice(choice, judgement, path), fragment, frame, known)
        return judgement

    def _begin_choice(
        self,
        choice: _OpenChoice,
        fragment: Start,
        frame: list[_Judgement],
        known: dict[Node, _Judgement],
    ) -> None:
        path, _, offset = fragment
        choice.holder.open_choices.append(choice)
        for node in choice.choice.branches:
            branch = None if node is None else known.get(node)
            if branch is None and node is not None:
                branch = self._begin(node, [choice], fragment, frame, known)
            elif branch is not None:
                branch.rests_on_it.append(choice)
                if branch.failure is not None and (lost := _lose(choice, branch.failure)):
                    self._fail(choice.holder, lost)
            if branch is None:
                choice.sure += 1
        if choice.choice.keyword == "oneOf" and choice.sure > 1:
            self._fail(choice.holder, Failure("oneOf", path, offset, choice=choice.choice))

    # Strings, and the end of a value

    def _take_text(self, fragment: Text) -> str | None:
        """Take a piece of a string; give what ends with the character that decides against it."""
        failures = []
        for judgement in self._text:
            if judgement.failure is None:
                good = _good(judgement, fragment.text)
                if good is not None:
                    failures.append((*good, judgement))
        # In the order of the text, so that it does not matter how it is cut.
        for length, keyword, judgement in sorted(failures, key=itemgetter(0)):
            self._fail(judgement, self._text_failure(judgement, fragment, length, keyword))
            if self._is_refused:
                return fragment.text[: length + 1]
        return None

    def _text_failure(
        self, judgement: _Judgement, fragment: Text, length: int, keyword: str
    ) -> Failure:
        path, text = fragment
        node, before = judgement.node, judgement.length - len(text)
        offset = self._start + 1 + before + length
        if keyword == "maxLength":
            return Failure(keyword, path, offset, node, limit=node.max_length)
        known = _candidate(judgement)[:before]
        return Failure(keyword, path, offset, node, known + text[: length + 1], limit=True)

    def _take_done(self, fragment: Done) -> None:
        path, value, offset = fragment
        kind: Kind
        if isinstance(value, dict):
            kind, frame, self._open = "object", self._open, self._stack.pop()
        elif isinstance(value, list):
            kind, frame, self._open = "array", self._open, self._stack.pop()
        else:
            kind, frame, self._scalar, self._text = self._kind, self._scalar, [], []
        if frame:
            # Branches before those that chose between them.
            for judgement in frame if len(frame) == 1 else sorted(frame, key=_height):
                if judgement.failure is None:
                    failure = _end(judgement, kind, fragment)
                    if failure is not None:
                        self._fail(judgement, failure)
        if not path and not self._is_refused:
            self._conclude(path, value, offset)

    # Failing

    @property
    def _is_refused(self) -> bool:
        return self._root is not None and self._root.failure is not None

    def _fail(self, judgement: _Judgement, failure: Failure) -> None:
        """Take a judgement down, and all that rest on it. No recursion: values may be deep."""
        falling = [(judgement, failure)]
        while falling:
            judgement, failure = falling.pop()
            if judgement.failure is not None:
                continue
            judgement.failure = failure
            for owner in judgement.rests_on_it:
                if isinstance(owner, _Judgement):
                    falling.append((owner, failure))
                elif (lost := _lose(owner, failure)) is not None:
                    falling.append((owner.holder, lost))


_height = attrgetter("node.height")


def _lose(choice: _OpenChoice, failure: Failure) -> Failure | None:
    """Take a branch from a choice; if it was the last, say so."""
    choice.failures.append(failure)
    if len(choice.failures) < len(choice.choice.branches):
        return None
    keyword, path, offset = choice.choice.keyword, choice.path, failure.offset
    return Failure(keyword, path, offset, choice=choice.choice, causes=tuple(choice.failures))


def _good(judgement: _Judgement, text: str) -> tuple[int, str] | None:
    """Take a piece of a string. If not all of it is good: how much is, and what it breaks."""
    node, before = judgement.node, judgement.length
    judgement.length += len(text)
    if node.candidates is not None:
        low, high = judgement.low, judgement.high
        judgement.low, judgement.high = node.candidates.narrow(low, high, before, text)
        if judgement.low == judgement.high:
            good = 0
            while low < high:  # the character that leaves them all, one by one: it happens once
                judgement.low = low
                low, high = node.candidates.narrow(low, high, before + good, text[good])
                good += 1
            return good - 1, "candidates"
    elif node.max_length is not None and judgement.length > node.max_length:
        return node.max_length - before, "maxLength"
    return None


def _candidate(judgement: _Judgement) -> str:
    """Give a string that the one so far began like."""
    candidates = judgement.node.candidates
    return "" if candidates is None else candidates.strings[judgement.low]


def _end(judgement: _Judgement, kind: Kind, fragment: Done) -> Failure | None:
    """Judge a value that is done."""
    path, value, offset = fragment
    node = judgement.node
    if kind == "object" and node.required:
        missing = [name for name in node.required if name not in value]  # type: ignore[operator]  # it is a dict
        if missing:
            return Failure("required", path, offset, node, missing)
    elif kind == "string" and node.candidates is not None:
        if len(_candidate(judgement)) != judgement.length:
            return Failure("candidates", path, offset, node, value)
    elif (
        kind == "number" and node.is_integer and isinstance(value, float) and not value.is_integer()
    ):
        return Failure("integer", path, offset, node, value)
    for late in node.late[kind]:
        if late.refuses(value):
            keyword = late.blamed(value)
            if keyword in ("enum", "const"):
                return Failure("candidates", path, offset, node, value)
            return Failure(keyword, path, offset, node, value, late.subschema.keywords.get(keyword))
    for choice in judgement.open_choices:
        if choice.choice.keyword == "oneOf" and choice.alive > 1:
            return Failure("oneOf", path, offset, choice=choice.choice)
    return None
