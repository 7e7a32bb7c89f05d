"""One value judged by a schema while it is written: fragments in, the first refusal out.

Sound, not complete: a refusal means that no continuation is valid. That a value is valid is said
only when it is whole, by jsonschema-rs.

Most values must fit one node and nothing else, so the first thing that does not fit refuses the
whole: what is known are the nodes of the open containers. A value that may be one of several things
(``anyOf``, ``oneOf``) is left to ``_branches``, from its first character to its last.

A character costs a constant amount of work, and inside a string that may be anything, none.
"""

import json
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from argstream.events import ArgumentsError
from argstream.jsonstream import Done, Fragment, Key, Kind, Start, Text, parse
from argstream.judging import Refusal
from argstream.validation._branches import Branches
from argstream.validation._endings import end, leaving, text_failure
from argstream.validation._library import Library
from argstream.validation._nodes import Node
from argstream.validation._wording import Failure, told

__all__ = ["SchemaCheck", "SchemaVerdict"]

SchemaVerdict: TypeAlias = Literal["open", "rejected", "valid"]


class SchemaCheck:
    """Judges one value. Feed it what ``Parser(unique_keys=True)`` says of its text."""

    def __init__(self, root: Node | None, library: Library) -> None:
        """Judge by this node; if there is none, nothing is refused before the final word."""
        self.verdict: SchemaVerdict = "open"
        self.error: ArgumentsError | None = None
        self.policy_decision = None
        """None: a schema decides nothing but valid or not."""
        self._library = library
        self._node = root
        self._stack: list[Node | None] = []  # of the containers around the innermost one
        self._container: Node | None = None  # what the innermost open container must be
        self._child: Node | None = None  # what the value of the last key must be
        self._scalar: Node | None = None  # what the open value must be that is no container
        self._kind: Kind = "null"  # of that
        self._text: Node | None = None  # the same, if it is a string whose text must be seen
        self._start = self._length = 0  # where that string begins, and how long it is
        self._so_far = ""  # and what it is, if there are few candidates for it
        self._low = self._high = 0  # which are left, if there are many
        self._branches: Branches | None = None  # who judges the open value, if it has choices
        self._depth = 0  # of that value

    def feed(self, fragments: Sequence[Fragment]) -> Refusal | None:
        """Take the next fragments; say if they decide against the value."""
        if self.verdict != "open":
            return None
        cut: str | None = None
        for fragment in fragments:
            if type(fragment) is Text:
                if self._text is None:
                    continue
                cut = (
                    self._take_text(self._text, fragment)
                    if self._branches is None
                    else self._take_branches(self._branches, fragment)
                )
            elif self._branches is not None:
                self._take_branches(self._branches, fragment)
            elif type(fragment) is Start:
                self._take_start(fragment)
            elif type(fragment) is Done:
                self._take_done(fragment)
            elif type(fragment) is Key:
                self._take_key(fragment)
            if self.error is not None:
                seen = next(at for at, one in enumerate(fragments, 1) if one is fragment)
                return Refusal(self.error, seen, cut, None if cut is None else self._start)
        return None

    def finish(self, arguments: dict[str, Any] | str, *, as_read: bool) -> ArgumentsError | None:
        """Give the final word on a whole value."""
        if not as_read or self.verdict == "open":
            self._conclude(arguments, None)
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
        self._stack, self._container, self._child, self._scalar = [], None, None, None
        self._text, self._branches = None, None

    def _conclude(self, value: object, offset: int | None) -> None:
        """Give the library's word on the whole."""
        if self._library.is_valid(value):
            self.verdict, self.error = "valid", None
        else:
            self._refuse(told(Failure("", (), offset)))

    # Keys and values

    def _take_key(self, fragment: Key) -> None:
        container = self._container
        if container is not None and container.takes_keys:
            path, offset = fragment
            key: Any = path[-1]
            try:
                child = self._child = container.children[key]
            except KeyError:
                child = self._child = container.child(key)
            if child is not None and child.is_impossible:
                self._fail(Failure("key", path, offset, container))

    def _take_start(self, fragment: Start) -> None:
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
                self._branches, self._depth = Branches(node), len(path)
                self._text = node  # whatever it is, they look at it
                self._take_branches(self._branches, fragment)
                return
        if kind == "object" or kind == "array":
            self._stack.append(container)
            self._container = node
        elif node is None:
            self._scalar = None
        else:
            self._scalar, self._kind = node, kind
            if kind == "string" and node.reads_text:
                self._begin_text(node, offset)

    # Strings, and the end of a value

    def _begin_text(self, node: Node, offset: int) -> None:
        self._text = node
        self._start, self._length, self._so_far = offset, 0, ""
        if node.candidates is not None:
            self._low, self._high = 0, len(node.candidates.strings)

    def _take_text(self, node: Node, fragment: Text) -> str | None:
        """Take a piece of a string; give what ends with the character that decides against it."""
        text, candidates = fragment.text, node.candidates
        if candidates is not None and candidates.beginnings is not None:
            so_far = self._so_far + text
            if so_far in candidates.beginnings:
                self._so_far = so_far
                return None
            before = len(self._so_far)
            low, good = leaving(candidates, 0, len(candidates.strings), 0, so_far)
            good -= before
        else:
            before = self._length
            length = self._length = before + len(text)
            if candidates is not None:
                low, high = self._low, self._high
                self._low, self._high = candidates.narrow(low, high, before, text)
                if self._low < self._high:
                    return None
                low, good = leaving(candidates, low, high, before, text)
            elif node.max_length is not None and length > node.max_length:
                low, good = 0, node.max_length - before
            else:
                return None
        offset = self._start + 1 + before + good
        self._fail(text_failure(node, low, fragment, (before, good), offset))
        return text[: good + 1]

    def _take_done(self, fragment: Done) -> None:
        path, value, offset = fragment
        kind: Kind
        if type(value) is dict:
            kind, node, self._container = "object", self._container, self._stack.pop()
        elif type(value) is list:
            kind, node, self._container = "array", self._container, self._stack.pop()
        else:
            kind, node, self._text = self._kind, self._scalar, None
        if node is not None and (node.ends[kind] or (type(value) is float and node.is_integer)):
            failure = end(node, kind, fragment)
            if failure is not None:
                self._fail(failure)
                return
        if not path:
            self._conclude(value, offset)

    # Unions

    def _take_branches(self, branches: Branches, fragment: Fragment) -> str | None:
        """Leave a value that may be one of several things to those who know them."""
        cut = None
        if type(fragment) is Text:
            cut = branches.take_text(fragment)
        elif type(fragment) is Start:
            branches.take_start(fragment)
        elif type(fragment) is Done:
            branches.take_done(fragment)
        elif type(fragment) is Key:
            branches.take_key(fragment)
        failure = branches.failure
        if failure is not None:
            self._start = branches.start
            self._fail(failure)
        elif type(fragment) is Done and len(fragment.path) == self._depth:
            self._branches = self._text = None
            if not fragment.path:
                self._conclude(fragment.value, fragment.offset)
        return cut

    def _fail(self, failure: Failure) -> None:
        self._refuse(told(failure))
