"""The parts of a UI message stream, folded to the message that a client has in the end.

It is what ``processUIMessageStream`` of npm ``ai`` makes of them, so a page that is given the
message shows what one shows that has read the stream. Only approvals are told as the clients check
them (``validateUIMessages``): what was decided has the answer, which no stream tells, since it was
given at the client; what ended without an answer has no approval.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from argstream.jsonstream import PENDING, Parser
from argstream.protocols.ai_sdk._parts import Part, harmless

__all__ = ["folded"]

_ANSWERS: Final = {"approved": True, "edited": True, "denied": False, "expired": False}
_PASSING: Final = ("output", "errorText", "rawInput", "inputEncoding", "preliminary", "approval")
"""What a call has in one state only."""


def folded(message_id: str, parts: Iterable[Part]) -> Part:
    """Give a message of the assistant as it is after these parts."""
    folding = _Folding()
    for part in parts:
        folding.take(part)
    return {
        "id": message_id,
        "role": "assistant",
        "metadata": folding.metadata,
        "parts": [part | _input_so_far(part) for part in folding.parts],
    }


class _Folding:
    """A message while it is folded."""

    def __init__(self) -> None:
        self.metadata: Part = {}
        self.parts: list[Part] = []
        self._words: dict[tuple[str, str], Part] = {}  # the last of each kind and id
        self._calls: dict[str, Part] = {}
        self._approvals: dict[str, Part] = {}  # by the ids of their calls
        self._takers: Mapping[str, Callable[[Part], None]] = {
            "start": self._take_metadata,
            "finish": self._take_metadata,
            "start-step": lambda _: self.parts.append({"type": "step-start"}),
            "text-start": partial(self._begin_words, "text"),
            "text-delta": partial(self._grow_words, "text"),
            "text-end": partial(self._end_words, "text"),
            "reasoning-start": partial(self._begin_words, "reasoning"),
            "reasoning-delta": partial(self._grow_words, "reasoning"),
            "reasoning-end": partial(self._end_words, "reasoning"),
            "tool-input-start": self._begin_call,
            "tool-input-delta": self._grow_call,
            "tool-input-available": lambda part: self._show(part, "input-available"),
            "tool-input-error": lambda part: self._show(part, "output-error"),
            "tool-approval-request": self._ask,
            "tool-output-available": lambda part: self._end_call(part, "output-available"),
            "tool-output-error": lambda part: self._end_call(part, "output-error"),
            "tool-output-denied": lambda part: self._end_call(part, "output-denied"),
            "data-argstream-decision": self._decide,
            "data-argstream-lost": self.parts.append,
        }

    def take(self, part: Part) -> None:
        """Take the next part; of ``finish-step``, ``abort`` and ``error`` a message keeps none."""
        if (take := self._takers.get(part["type"])) is not None:
            take(part)

    def _take_metadata(self, part: Part) -> None:
        self.metadata |= part["messageMetadata"]

    # Words

    def _begin_words(self, kind: str, part: Part) -> None:
        words = {"type": kind, "text": "", "state": "streaming"} | _chosen(part, "providerMetadata")
        if kind == "reasoning":
            words["id"] = part["id"]
        self._words[kind, part["id"]] = words
        self.parts.append(words)

    def _grow_words(self, kind: str, part: Part) -> None:
        self._words[kind, part["id"]]["text"] += part["delta"]

    def _end_words(self, kind: str, part: Part) -> None:
        self._words[kind, part["id"]]["state"] = "done"

    # Calls

    def _begin_call(self, part: Part) -> None:
        call_id = part["toolCallId"]
        if call_id not in self._calls:
            self._calls[call_id] = {"type": "dynamic-tool", "toolCallId": call_id}
            self.parts.append(self._calls[call_id])
        call = self._become(part, "input-streaming")
        call.pop("input", None)
        call |= _chosen(part, "toolName", "providerExecuted", "inputEncoding")
        if "providerMetadata" in part:
            call["callProviderMetadata"] = part["providerMetadata"]

    def _grow_call(self, part: Part) -> None:
        call = self._calls[part["toolCallId"]]
        call["rawInput"] = call.get("rawInput", "") + part["inputTextDelta"]

    def _show(self, part: Part, state: str) -> None:
        if part["toolCallId"] not in self._calls:
            self._begin_call(part)
        call = self._become(part, state)
        call |= _chosen(part, "toolName", "input", "errorText")

    def _ask(self, part: Part) -> None:
        approval = {
            "id": part["approvalId"],
            "descriptor": part["approvalDescriptor"],
            "requestReason": part["reason"],
        }
        self._approvals[part["toolCallId"]] = approval
        self._become(part, "approval-requested")["approval"] = approval

    def _decide(self, part: Part) -> None:
        self.parts.append(part)
        call_id, decision = part["data"]["toolCallId"], part["data"]["decision"]
        if decision in _ANSWERS:
            answer = {"approved": _ANSWERS[decision], "reason": part["data"]["reason"]}
            self._approvals[call_id] = self._approvals.get(call_id, {}) | answer

    def _end_call(self, part: Part, state: str) -> None:
        call = self._become(part, state)
        call |= _chosen(part, "output", "errorText", "preliminary")
        approval = self._approvals.get(part["toolCallId"], {})
        if "approved" in approval:
            call["approval"] = approval

    def _become(self, part: Part, state: str) -> Part:
        call = self._calls[part["toolCallId"]]
        call |= _input_so_far(call)
        for name in _PASSING:
            call.pop(name, None)
        call["state"] = state
        return call


def _chosen(part: Part, *names: str) -> Part:
    return {name: part[name] for name in names if name in part}


def _input_so_far(part: Part) -> Part:
    """Give the input of a call that is being written, as far as it has come."""
    text: str | None = part.get("rawInput")
    if text is None:
        return {}
    if part.get("inputEncoding") == "text":
        return {"input": text}
    parser = Parser()
    parser.feed(text)
    return {} if parser.value is PENDING else {"input": harmless(parser.value)}
