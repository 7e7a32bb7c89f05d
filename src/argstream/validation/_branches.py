"""A value that may be one of several things, judged branch by branch.

Each open value has a frame of judgements: one for its node, and one for each branch of an ``anyOf``
or ``oneOf`` that is still alive. A judgement that fails takes those down that rest on it: the one
of the value around it, or its choice if that has no other branch left. When the outermost fails,
the value is refused. Two that ask the same of one value share a judgement, so there are never more
at a value than the schema has subschemas.
"""

from operator import attrgetter, itemgetter
from typing import Any, TypeAlias

from argstream.jsonstream import Done, JsonPath, Key, Kind, Start, Text
from argstream.validation._endings import end, leaving, text_failure
from argstream.validation._nodes import Choice, Node
from argstream.validation._wording import Failure

__all__ = ["Branches"]


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
        self.low, self.high = 0, 0 if node.candidates is None else len(node.candidates.strings)


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


class Branches:
    """Judges one value by a node with choices: all fragments of it, from its start to its end."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._root: _Judgement | None = None
        self._stack: list[list[_Judgement]] = []  # of the containers around the innermost one
        self._open: list[_Judgement] = []  # of the innermost open container
        self._scalar: list[_Judgement] = []  # of the open value that is no container
        self._kind: Kind = "null"  # of that
        self._text: list[_Judgement] = []  # of these, who must see a string's text
        self.start = 0  # where that string begins
        self._children: _Children = {}  # of the value to come

    @property
    def failure(self) -> Failure | None:
        """Why the value is refused, if it is."""
        return None if self._root is None else self._root.failure

    # Keys and values

    def take_key(self, fragment: Key) -> None:
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
            else:
                children.setdefault(child, []).append(judgement)
        self._children = children

    def take_start(self, fragment: Start) -> None:
        path, kind, offset = fragment
        if self._root is None:
            children: _Children = {self._node: []}
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
                self.start = offset
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
        if self._root is None:
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
            if node is None:
                choice.sure += 1
            elif (branch := known.get(node)) is not None:  # the same is asked elsewhere
                branch.rests_on_it.append(choice)
                if branch.failure is not None and (lost := _lose(choice, branch.failure)):
                    self._fail(choice.holder, lost)
            elif self._begin(node, [choice], fragment, frame, known) is None:
                choice.sure += 1
        if choice.choice.keyword == "oneOf" and choice.sure > 1:
            self._fail(choice.holder, Failure("oneOf", path, offset))

    # Strings, and the end of a value

    def take_text(self, fragment: Text) -> str | None:
        """Take a piece of a string; give what ends with the character that decides against it."""
        failures = []
        for judgement in self._text:
            if judgement.failure is None:
                good = _good(judgement, fragment.text)
                if good is not None:
                    failures.append((good, judgement))
        # In the order of the text, so that it does not matter how it is cut.
        for length, judgement in sorted(failures, key=itemgetter(0)):
            self._fail(judgement, self._text_failure(judgement, fragment, length))
            if self._is_refused:
                return fragment.text[: length + 1]
        return None

    def _text_failure(self, judgement: _Judgement, fragment: Text, length: int) -> Failure:
        before = judgement.length - len(fragment.text)
        offset = self.start + 1 + before + length
        return text_failure(judgement.node, judgement.low, fragment, (before, length), offset)

    def take_done(self, fragment: Done) -> None:
        value = fragment.value
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
                    failure = end(judgement.node, kind, fragment) or _undecided(judgement, fragment)
                    if failure is not None:
                        self._fail(judgement, failure)
                judgement.open_choices = []  # they refer to it: without this, it would be a cycle

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
    if choice.alive:
        return None
    causes = tuple(choice.failures)
    return Failure(choice.choice.keyword, choice.path, failure.offset, causes=causes)


def _good(judgement: _Judgement, text: str) -> int | None:
    """Take a piece of a string. If not all of it is good: how much is."""
    node, before = judgement.node, judgement.length
    judgement.length += len(text)
    if node.candidates is not None:
        low, high = judgement.low, judgement.high
        judgement.low, judgement.high = node.candidates.narrow(low, high, before, text)
        if judgement.low == judgement.high:
            judgement.low, good = leaving(node.candidates, low, high, before, text)
            return good
    elif node.max_length is not None and judgement.length > node.max_length:
        return node.max_length - before
    return None


def _undecided(judgement: _Judgement, fragment: Done) -> Failure | None:
    """See whether more branches of a value are left than may be."""
    for choice in judgement.open_choices:
        if choice.choice.keyword == "oneOf" and choice.alive > 1:
            return Failure("oneOf", fragment.path, fragment.offset)
    return None
