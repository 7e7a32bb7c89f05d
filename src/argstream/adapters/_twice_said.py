"""The turns of one agent: Anthropic's events, and beside them each block once more, as a whole.

The whole block comes when the last piece of it has come, and before the event that stops it; some
who pass both on turn that round. Often it comes alone, because nobody asked for events. So it is
the end of the block that streamed, if one did, with whatever that lacked; and else a block.
"""

import json
from collections import deque
from typing import Any, Final

from argstream.adapters._continuation import parsed, rest_of, same
from argstream.adapters._payloads import UnreadableError, text_of
from argstream.adapters.anthropic import CALLS, AnthropicAdapter, turn_ended
from argstream.deltas import (
    ArgumentText,
    ArgumentValue,
    BlockSaid,
    CallClosed,
    Delta,
    Ending,
    TurnEnded,
)

__all__ = ["Speaker"]

_CLOSING: Final = '"]} \n'


class Speaker(AnthropicAdapter):
    """One agent, the first one or one that a call has started."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open = False
        """Whether it is in the middle of a turn."""
        self._id = ""  # of the message
        self._is_answered = True  # whether something came that a message waits for
        self._texts: dict[int, str] = {}  # of calls that are open
        self._unsaid: dict[tuple[object, str], deque[int]] = {}  # that streamed, and not yet whole
        self._calls: set[str] = set()  # ids
        # Of calls that may be whole, by their ids: where they are, and what would close them.
        self._unproved: dict[str, tuple[int, str]] = {}
        self._is_said = False  # whether any of this message came as a whole
        self._stop_reason = ""  # if it came with that
        self._count = 0  # of blocks that did not stream

    # What streams

    def _message_started(self, message: dict[str, Any]) -> list[Delta]:
        ended = self.end() if self._is_whole or self._has_stop_reason else []
        self.is_open, self._is_answered, self._is_said = True, False, False
        self._id, self._stop_reason = text_of(message.get("id")), ""
        self._texts.clear()
        self._unsaid.clear()
        self._calls.clear()
        self._unproved.clear()
        return ended + super()._message_started(message)

    def _block_started(self, index: int, block: dict[str, Any]) -> list[Delta]:
        self.is_open = True
        self._unsaid.setdefault(_identity(block), deque()).append(index)
        if block.get("type") in CALLS and (id_ := text_of(block.get("id"))):
            self._calls.add(id_)
        return super()._block_started(index, block)

    def _block_changed(self, index: int, change: Any) -> list[Delta]:
        if index not in self._blocks:
            return []  # it was said as a whole, or will be: its beginning was missed
        deltas = super()._block_changed(index, change)
        if piece := change.partial_json:
            text = self._texts.pop(index, "")
            text += piece  # in place: nothing else refers to it (invariant 6)
            self._texts[index] = text
        return deltas

    def _message_stopped(self) -> list[Delta]:
        self.is_open = False
        self._unproved.clear()
        return super()._message_stopped()

    # What comes as a whole

    def take_message(self, message: dict[str, Any]) -> list[Delta]:
        """Take a message, or a part of one: several with the same id are one turn."""
        id_ = text_of(message.get("id"))
        blocks = _blocks_of(message.get("content"))
        is_same = id_ == self._id if id_ else not self._is_answered
        if not is_same and self.is_open and any(self._is_unsaid_call(block) for block in blocks):
            is_same, self._id = True, id_ or self._id  # its beginning was missed, or has no id
        deltas = [] if is_same else self._whole_message_started(message)
        stop_reason = text_of(message.get("stop_reason"))
        for number, block in enumerate(blocks):
            may_be_cut = stop_reason and turn_ended(stop_reason).ending == "cut"
            is_over = number < len(blocks) - 1 or not may_be_cut
            deltas += self._take_block(block, message, is_over=is_over)
        if self.is_open:
            self._is_said = True
            self._stop_reason = stop_reason or self._stop_reason
            if not self._has_stop_reason:
                deltas += self._usage_reported(message.get("usage"))
        return deltas

    def answered(self) -> None:
        """Say that a user, or a tool, has spoken: what follows without an id is a new message."""
        self._is_answered = True

    def end(self) -> list[Delta]:
        """Say that it has gone on to something else, or will say nothing more."""
        if not self.is_open:
            return []
        if self._has_stop_reason:
            return self._message_stopped()
        if self._stop_reason:
            ended = turn_ended(self._stop_reason)
        else:
            ended = TurnEnded(None, "finished" if self._is_whole else "cut")
        proved = self._proved(ended.ending)
        return [*proved, *self._rest_of_blocks(), ended, *self._message_stopped()]

    def _message_changed(self, happening: Any) -> list[Delta]:
        reason = happening.delta.stop_reason if happening.delta is not None else None
        proved = self._proved(turn_ended(reason).ending) if reason else []
        return proved + super()._message_changed(happening)

    def _proved(self, ending: Ending) -> list[Delta]:
        """Close the calls of which only what closes was missing, if the turn was not cut."""
        ids = list(self._unproved) if ending == "finished" else []
        deltas = [delta for id_ in ids for delta in self.was_run(id_)]
        self._unproved.clear()
        return deltas

    def was_run(self, call_id: str) -> list[Delta]:
        """Say that a call was run, so that it was whole."""
        if call_id not in self._unproved:
            return []
        index, rest = self._unproved.pop(call_id)
        return [ArgumentText(index, rest), CallClosed(index)]

    def leave(self, *, is_over: bool) -> list[Delta]:
        """Say that nothing more comes, and whether that is as it should be."""
        return self.end() if is_over and self._is_whole else self.close()

    @property
    def _is_whole(self) -> bool:
        """Whether each block of this turn was said as a whole, so that no event is missed."""
        return self.is_open and self._is_said and not self._unsaid and not self._blocks

    def _is_unsaid_call(self, block: dict[str, Any]) -> bool:
        """Say whether a block is a call that streamed, and has not been said as a whole."""
        return block.get("type") in CALLS and _identity(block) in self._unsaid

    def _whole_message_started(self, message: dict[str, Any]) -> list[Delta]:
        # Its end is not known before something else begins.
        return self._message_started({**message, "content": [], "stop_reason": None})

    def _take_block(
        self, block: dict[str, Any], message: dict[str, Any], *, is_over: bool
    ) -> list[Delta]:
        identity = _identity(block)
        if (streamed := self._unsaid.get(identity)) is not None:
            index = streamed.popleft()
            if not streamed:
                del self._unsaid[identity]
            return self._end_of_block(index, block, is_over=is_over) if self.is_open else []
        is_call = block.get("type") in CALLS
        if is_call and text_of(block.get("id")) in self._calls:
            return []
        if is_call and not isinstance(block.get("input"), dict):
            raise UnreadableError("a call without its input")
        again = [] if self.is_open else self._whole_message_started(message)
        self._count += 1
        index = -self._count  # never one of those that stream
        if is_call and is_over and not block["input"]:
            # An agent says this of a call that was cut, too: whether it was, the turn's end tells.
            deltas = [*self._block_started(index, block), CallClosed(index)]
        else:
            deltas = self._whole_block(index, block, is_over=is_over)
        del self._unsaid[identity]
        self._blocks.pop(index, None)  # all is said of it, also if it was cut
        return again + deltas

    def _end_of_block(self, index: int, block: dict[str, Any], *, is_over: bool) -> list[Delta]:
        """Give what is missing of a block that streamed, and its end."""
        type_ = block.get("type")
        is_open, known = index in self._blocks, self._blocks.get(index, {})
        deltas: list[Delta] = []
        if type_ in CALLS:
            if not is_open and index in self._texts:
                return []  # it has its verdict
            if not is_over or (missing := self._end_of_call(index, block)) is None:
                return []
            deltas = missing
        elif type_ == "text" and isinstance(text := block.get("text"), str):
            deltas.append(BlockSaid(index, text))
        elif is_open and isinstance(text := block.get("thinking"), str):
            deltas.append(BlockSaid(index, text, is_thinking=True))
        known.update((name, part) for name, part in block.items() if part and name != "input")
        if text_of(block.get("id")) in self._unproved:
            kept = self._rest_of_block(index)
            self._blocks.pop(index, None)
            return kept  # whether it is closed, the turn's end tells
        return deltas + self._block_stopped(index)

    def _end_of_call(self, index: int, block: dict[str, Any]) -> list[Delta] | None:
        """Give what is missing of a call; None if only its own end can tell whether it was cut."""
        value = block.get("input")
        if not isinstance(value, dict) or self._has_stop_reason:
            return None
        if not value and index not in self._texts:
            return None  # nothing streamed: there is nothing, or it was cut at its very beginning
        self._inputs.pop(index, None)
        text = self._texts.pop(index, "")
        if not text:
            return [ArgumentValue(index, (), value), CallClosed(index)]
        if (written := parsed(text)) is not None:
            is_same = same(written, value)
            return [] if is_same else [CallClosed(index, json.dumps(value, ensure_ascii=False))]
        # An agent that cannot read what was streamed says {} instead.
        rest = rest_of(text, value) if value else None
        if rest is not None and not rest.strip(_CLOSING):
            # What only closes may be what somebody made of a text that was cut.
            self._unproved[text_of(block.get("id"))] = index, rest
            return []
        return None if rest is None else [ArgumentText(index, rest)]


def _identity(block: dict[str, Any]) -> tuple[object, str]:
    """Give what a block has in common with the same one as a whole; for text, that is its order."""
    return block.get("type"), text_of(block.get("id")) or text_of(block.get("tool_use_id"))


def _blocks_of(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list) or not all(map(_is_block, content)):
        raise UnreadableError("a message without its content")
    return content


def _is_block(block: object) -> bool:
    return isinstance(block, dict) and isinstance(block.get("type"), str)
