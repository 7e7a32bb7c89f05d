"""One turn while it is written: its blocks in order. They become a message of the history."""

from collections.abc import Collection, Hashable
from typing import Any

from msgspec.structs import replace

from argstream import events as ev
from argstream.assembly._call import CallBuilder
from argstream.history import (
    CallPart,
    Item,
    Message,
    OpaquePart,
    Part,
    ResultPart,
    TextPart,
    ThinkingPart,
)
from argstream.providers import stop_kind
from argstream.providers._deltas import RUN_BY_PROVIDER, Tokens
from argstream.sanitise import SurrogateReplacer, replace_lone_surrogates_in_json


class TextBlock:
    def __init__(self, number: int, parent_id: str | None) -> None:
        self.number = number
        self.parent_id = parent_id
        self.item: Item | None = None
        self.text = ""
        self._surrogates = SurrogateReplacer()

    def append(self, piece: str) -> str:
        """Append a piece. Return it with surrogate pairs joined."""
        if not piece.isascii() or self._surrogates.held:
            piece = self._surrogates.feed(piece)
        text, self.text = self.text, ""
        text += piece  # in place: nothing else refers to it (invariant 6)
        self.text = text
        return piece

    def event(self, piece: str) -> ev.Event:
        return ev.TextDelta(piece, self.number, self.parent_id)

    def part(self) -> Part | None:
        text = self.text + self._surrogates.close()
        return TextPart(text=text, item=self.item) if text or self.item else None


class ThinkingBlock(TextBlock):
    def __init__(self, number: int, parent_id: str | None) -> None:
        super().__init__(number, parent_id)
        self.closed = False

    def event(self, piece: str) -> ev.Event:
        return ev.ThinkingDelta(piece, self.number, self.parent_id)

    def started(self) -> ev.Event:
        return ev.ThinkingStarted(self.number, self.parent_id)

    def completed(self) -> ev.Event:
        self.closed = True
        self.text += self._surrogates.close()
        return ev.ThinkingCompleted(self.text, self.number, self.parent_id)

    def part(self) -> Part | None:
        return ThinkingPart(text=self.text, item=self.item)


class _SilentBlock:
    """A block that creates no events: a result, or data that only its provider reads."""

    def __init__(self, result: ResultPart | None = None) -> None:
        self.item: Item | None = None
        self._result = result

    def part(self) -> Part | None:
        if self._result is None:
            return OpaquePart(item=self.item or {})
        return replace(self._result, item=self.item)


class Turn:
    """The blocks of one message, by the provider's keys."""

    def __init__(
        self, number: int, id_: str = "", model: str = "", parent_id: str | None = None
    ) -> None:
        self.id = id_
        self.model = model
        self.parent_id = parent_id
        self._number = number
        self.calls: dict[Hashable, CallBuilder] = {}
        self._unfinished: dict[Hashable, CallBuilder] = {}
        self._thinking: list[ThinkingBlock] = []  # some may be closed
        self.ids: set[str] = set()
        self._last_number = 0  # the number in the newest generated call ID
        self.ended = False
        self.failed = False
        self.stop_reason: str | None = None
        self._tokens = Tokens()
        self.texts: dict[Hashable, TextBlock] = {}
        self._results: dict[Hashable, _SilentBlock] = {}
        self._blocks: list[TextBlock | CallBuilder | _SilentBlock] = []  # in order

    @property
    def usage(self) -> ev.Usage:
        return ev.Usage(*self._tokens)

    def update_usage(self, tokens: Tokens) -> None:
        """Replace the counts that are not None. Providers send cumulative counts."""
        before = self._tokens
        self._tokens = Tokens(*[b if a is None else a for a, b in zip(tokens, before, strict=True)])

    def open_text(self, block: Hashable, text: TextBlock) -> None:
        self.texts[block] = text
        self._blocks.append(text)
        if isinstance(text, ThinkingBlock):
            self._thinking.append(text)

    def open_call(self, key: Hashable, call: CallBuilder) -> None:
        self.calls[key] = call
        self._unfinished[key] = call
        self.ids.add(call.call.id)
        self._blocks.append(call)

    def pop_open_thinking(self) -> list[ThinkingBlock]:
        """Remove and return the open thinking blocks. The caller closes them."""
        blocks, self._thinking = self._thinking, []
        return [block for block in blocks if not block.closed]

    def add_item(self, block: Hashable, item: Any) -> None:
        """Store the provider's own form of a block. Add a new block if the key is unknown."""
        item = replace_lone_surrogates_in_json(dict(item))
        owner = self.texts.get(block) or self.calls.get(block) or self._results.get(block)
        if owner is None:
            owner = _SilentBlock()
            self._blocks.append(owner)
        owner.item = {**(owner.item or {}), **item}

    def add_result(self, block: Hashable, result: ResultPart) -> None:
        added = _SilentBlock(result)
        if block is not None:
            self._results[block] = added
        self._blocks.append(added)

    def pop_unfinished(self, scope: Hashable = None) -> list[CallBuilder]:
        """Remove and return the calls that may still need a verdict. The caller finishes them."""
        unfinished, self._unfinished = self._unfinished, {}
        if scope is not None:  # only the calls of one choice
            for key in [key for key in unfinished if not isinstance(key, tuple) or key[0] != scope]:
                self._unfinished[key] = unfinished.pop(key)
        return list(unfinished.values())

    def make_id(self, stem: str, taken: Collection[str]) -> str:
        """Return an unused ID for a call without one, the same each time the stream is read."""
        prefix = f"call_{stem or self.id or 'turn'}_{self._number}"
        self._last_number = max(self._last_number, len(self.ids))
        while (id_ := f"{prefix}_{self._last_number}") in taken:
            self._last_number += 1  # never reset, so each taken ID is tested once (invariant 6)
        return id_

    @property
    def characters(self) -> int:
        return sum(
            len(block.call.raw if isinstance(block, CallBuilder) else block.text)
            for block in self._blocks
            if not isinstance(block, _SilentBlock)
        )

    def stop_kind_of(self, message: Message) -> ev.StopKind:
        # Some providers send the same stop reason with and without calls.
        kind = stop_kind(self.stop_reason)
        calls = (part for part in message.parts if isinstance(part, CallPart))
        is_waiting = any(call.kind not in RUN_BY_PROVIDER for call in calls)
        return "tool_calls" if kind == "end_turn" and is_waiting else kind

    def message(self) -> Message:
        parts = tuple(part for block in self._blocks if (part := block.part()) is not None)
        return Message(role="assistant", parts=parts, id=self.id, model=self.model)
