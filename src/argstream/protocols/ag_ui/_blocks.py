"""The blocks of a run, as the client knows them: under which id, and how each begins and ends.

Each block is a message of its own. Its id is that of the run with the number of the block, so that
it is the same for all who watch, whenever they come.
"""

from abc import ABC, abstractmethod
from typing import Any, Final

import msgspec

from argstream.deltas import FREE_TEXT_KINDS, CallKind
from argstream.events import ApprovalDecided, ApprovalRequested, ArgumentsError, SeenCall
from argstream.protocols.ag_ui.wire import AgUiEvent, custom, note
from argstream.protocols.calls import text_of

__all__ = [
    "LOST",
    "NO_RESULT",
    "Block",
    "CallBlock",
    "TextBlock",
    "ThinkingBlock",
    "WordsBlock",
]

LOST: Final = "The turn of the model was cut off and began again: this call is void."
NO_RESULT: Final = "There is no result: the run has ended before."


class Block(ABC):
    """Something that the model has begun, in the stream of a client."""

    def __init__(self, id: str, parent_id: str | None, turn: int) -> None:  # noqa: A002 - what it is
        self.id = id
        self.parent_id = parent_id
        self.turn = turn
        self.is_lost = False
        self.is_open = True
        """Whether more is to come, as far as can be told."""

    @abstractmethod
    def start(self) -> list[AgUiEvent]:
        """Tell that it begins, or goes on in another stream."""

    @abstractmethod
    def end(self) -> list[AgUiEvent]:
        """Tell that it is over."""

    def event(self, kind: str, **fields: Any) -> AgUiEvent:
        """Tell something of it, in the name of the sub-agent whose it is."""
        return {"type": kind, **fields, **self.tag}

    @property
    def tag(self) -> dict[str, str]:
        """Which call's sub-agent made it; nothing if it was the agent itself."""
        return {} if self.parent_id is None else {"subagentRunId": self.parent_id}


class WordsBlock(Block):
    """What the model says or thinks: a text that grows."""

    length = 0

    def grow(self, text: str) -> list[AgUiEvent]:
        """Tell the next piece; of what was taken for over, all in one."""
        if not text:
            return []
        if self.is_open:
            return self._grown(text)
        return [*self.start(), *self._grown(text), *self.end()]

    @abstractmethod
    def _grown(self, text: str) -> list[AgUiEvent]: ...


class TextBlock(WordsBlock):
    """What it says."""

    def start(self) -> list[AgUiEvent]:
        return [self.event("TEXT_MESSAGE_START", messageId=self.id, role="assistant")]

    def end(self) -> list[AgUiEvent]:
        return [self.event("TEXT_MESSAGE_END", messageId=self.id)]

    def _grown(self, text: str) -> list[AgUiEvent]:
        self.length += len(text)
        return [self.event("TEXT_MESSAGE_CONTENT", messageId=self.id, delta=text)]


class ThinkingBlock(WordsBlock):
    """What it thinks: a span, and a message in it once there is something to read."""

    def start(self) -> list[AgUiEvent]:
        span = self.event("REASONING_START", messageId=self.id)
        return [span, self._message()] if self.length else [span]

    def end(self) -> list[AgUiEvent]:
        span = self.event("REASONING_END", messageId=self.id)
        message = self.event("REASONING_MESSAGE_END", messageId=self.id)
        return [message, span] if self.length else [span]

    def _message(self) -> AgUiEvent:
        return self.event("REASONING_MESSAGE_START", messageId=self.id, role="reasoning")

    def _grown(self, text: str) -> list[AgUiEvent]:
        first = [] if self.length else [self._message()]
        self.length += len(text)
        return [*first, self.event("REASONING_MESSAGE_CONTENT", messageId=self.id, delta=text)]


class CallBlock(Block):
    """A call of a tool."""

    def __init__(  # noqa: PLR0913 - what there is to know of a call
        self,
        id: str,  # noqa: A002 - what it is
        parent_id: str | None,
        turn: int,
        *,
        call_id: str,
        name: str,
        kind: CallKind,
    ) -> None:
        super().__init__(id, parent_id, turn)
        self.call_id = call_id
        """Not the model's, if that has called anew under the same after a turn was cut off."""
        self.name = name
        self.kind = kind
        self.raw: list[str] = []
        """While it is written."""
        self.length = 0
        self.request: ApprovalRequested | None = None
        self.is_decided = False
        self.has_result = False

    @property
    def is_pending(self) -> bool:
        """Whether a person must decide on it."""
        asked = self.request is not None and not self.is_decided
        return asked and not self.has_result and not self.is_lost

    def start(self) -> list[AgUiEvent]:
        call = {"toolCallId": self.call_id, "toolCallName": self.name, "parentMessageId": self.id}
        return [self.event("TOOL_CALL_START", **call)]

    def end(self) -> list[AgUiEvent]:
        return [self.event("TOOL_CALL_END", toolCallId=self.call_id)]

    def rename(self, name: str) -> list[AgUiEvent]:
        """Take another name: clients take it from a second start."""
        if name == self.name:
            return []
        self.name = name
        return [*self.end(), *self.start()] if self.is_open else [*self.start(), *self.end()]

    def write(self, text: str, name: str) -> list[AgUiEvent]:
        """Tell the next piece of its arguments; of one that is over, nothing is told any more."""
        told = self.rename(name)
        if self.is_open and text:
            self.raw.append(text)
            self.length += len(text)
            told.append(self.event("TOOL_CALL_ARGS", toolCallId=self.call_id, delta=text))
        return told

    def complete(self, arguments: dict[str, Any] | str) -> list[AgUiEvent]:
        """Tell that its arguments are whole, and what they are if their text says otherwise."""
        text = self.text_of_arguments("".join(self.raw))
        told = [] if self.length else self.write(text, self.name)
        self.raw.clear()
        return [*told, *self.close(), *self.restated(text, arguments)]

    def text_of_arguments(self, raw: str) -> str:
        """Give the text of arguments that are whole: it is JSON even if nothing was written."""
        return raw if raw or self.kind in FREE_TEXT_KINDS else "{}"

    def restated(self, text: str, arguments: dict[str, Any] | str) -> list[AgUiEvent]:
        """Tell the arguments themselves, if that is not what their text says."""
        return [] if self._says(text, arguments) else [self.about("arguments", arguments=arguments)]

    def close(self) -> list[AgUiEvent]:
        """Tell that nothing more of it comes, if that was not told."""
        told = self.end() if self.is_open else []
        self.is_open = False
        return told

    def invalid(self, verdict: str, error: ArgumentsError) -> list[AgUiEvent]:
        """Tell that it must not be run, why, and where in its arguments."""
        self.raw.clear()
        facts = {**msgspec.structs.asdict(error), "path": list(error.path)}
        return [*self.close(), self.about("arguments_invalid", verdict=verdict, **facts)]

    def asked(self, request: ApprovalRequested) -> list[AgUiEvent]:
        """Tell that somebody must decide on it; once nothing else can be done, a stream ends."""
        self.request = request
        facts = {"id": request.digest, "toolName": request.name, "arguments": request.arguments}
        return [
            self.about(
                "approval_requested",
                **facts,
                reason=request.reason,
                rule=request.rule,
                expiresAt=request.expires_at,
            )
        ]

    def decided(self, decision: ApprovalDecided) -> list[AgUiEvent]:
        """Tell what was decided; if it was edited, what is run instead."""
        self.is_decided = True
        facts: dict[str, Any] = {"decision": decision.decision, "reason": decision.reason}
        if decision.edited_arguments is not None:
            facts["editedArgs"] = decision.edited_arguments
        return [self.about("approval_decided", **facts)]

    def said(self, text: str) -> list[AgUiEvent]:
        """Tell what its tool says while it runs."""
        return [self.about("tool_output", delta=text)] if text else []

    def result(self, result: Any, *, failed: bool) -> list[AgUiEvent]:
        """Tell what came of it; nothing if that was told."""
        if self.has_result:
            return []
        self.has_result = True
        return [*self.close(), self.answered(result, failed=failed)]

    def answered(self, result: Any, *, failed: bool) -> AgUiEvent:
        """Tell what came of it, again if need be."""
        fields = {"messageId": f"{self.id}-result", "toolCallId": self.call_id}
        told = self.event("TOOL_CALL_RESULT", **fields, content=text_of(result))
        return {**told, **note(failed=True)} if failed else told

    def restore(self, seen: SeenCall) -> None:
        """Take how far it has come, as if all of it had been told."""
        self.is_open = seen.verdict is None and seen.outcome is None
        self.raw = [seen.raw] if self.is_open else []
        self.length = len(seen.raw)
        self.request = seen.request
        self.is_decided = seen.decision is not None
        self.has_result = seen.outcome is not None or seen.is_lost

    def lose(self) -> list[AgUiEvent]:
        """Tell that nothing comes of it, since the model does not know of it any more."""
        return self.result(LOST, failed=True)

    def about(self, name: str, **facts: Any) -> AgUiEvent:
        """Tell of it what the protocol has no event for."""
        return {**custom(name, {"toolCallId": self.call_id, **facts}), **self.tag}

    def _says(self, text: str, arguments: dict[str, Any] | str) -> bool:
        if self.kind in FREE_TEXT_KINDS:
            return text == arguments
        try:
            return bool(msgspec.json.decode(text) == arguments)
        except msgspec.DecodeError:
            return False
