"""Gemini's generateContent, from the Gemini API and from Vertex, streamed or not.

A payload is a piece of the answer: candidates with new parts. Calls come whole, or as leaves of
their arguments; ``_gemini_parts`` reads both. Most have no id. An answer that is not streamed has
the same form; a stream that is not sent as server-sent events is an array of payloads.
"""

from typing import Final

from msgspec import Struct

from argstream.adapters._gemini_parts import PartsReader
from argstream.adapters._gemini_payloads import (
    NO_USAGE,
    VITAL_OF_PARTS,
    Content,
    GeminiReader,
    Part,
    Payload,
    Sent,
    failure,
)
from argstream.adapters._payloads import UnreadableError, is_done, refuse_duplicate_keys
from argstream.deltas import (
    Delta,
    Ending,
    ProviderFailed,
    TurnClosed,
    TurnEnded,
    TurnOpened,
    UsageReported,
)

__all__ = ["GeminiAdapter"]

_ENDINGS: Final[dict[str, Ending]] = {
    "STOP": "finished",
    **dict.fromkeys(
        (
            "MAX_TOKENS",
            "SAFETY",
            "RECITATION",
            "LANGUAGE",
            "OTHER",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "MALFORMED_FUNCTION_CALL",
            "MALFORMED_RESPONSE",
            "UNEXPECTED_TOOL_CALL",
            "TOO_MANY_TOOL_CALLS",
            "CONTINUATION",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
            "IMAGE_OTHER",
            "NO_IMAGE",
        ),
        "cut",
    ),
}


class _Candidate(Struct, gc=False, rename="camel"):
    index: int = 0
    content: Content | None = None
    finish_reason: str | None = None


class _PromptFeedback(Struct, gc=False, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None


class _Response(Payload, gc=False, rename="camel"):
    candidates: list[_Candidate] | None = None
    response_id: str | None = None
    model_version: str | None = None
    prompt_feedback: _PromptFeedback | None = None


_read = GeminiReader(
    _Response, vital={*VITAL_OF_PARTS, "candidates", "index", "content", "finish_reason"}
)


class GeminiAdapter:
    """Payloads of generateContent and streamGenerateContent → deltas."""

    protocol = "gemini"

    def __init__(self) -> None:
        self._in_turn = False
        self._turn_id = ""
        self._answers: dict[int, PartsReader] = {}
        self._finished: set[int] = set()
        self._sent = Sent()
        self._unsaid: list[Delta] = []  # what came before the part that could not be read

    def feed(self, payload: object, event: str = "") -> list[Delta]:  # noqa: ARG002 - as all
        """Take one payload: bytes, a dict, or a response of the SDK."""
        if is_done(payload):  # of a gateway that speaks to all in the manner of OpenAI
            return []
        response = _read(payload)
        deltas: list[Delta] = []
        feedback = response.prompt_feedback
        block_reason = None if feedback is None else _told(feedback.block_reason)
        if (response.candidates or block_reason) and (
            not self._in_turn or (self._finished and self._is_next_turn(response))
        ):
            deltas += self.close()
            self._in_turn = True
            self._turn_id = response.response_id or ""
            deltas.append(TurnOpened(self._turn_id, response.model_version or ""))
        usage = response.usage_metadata
        if usage is not None and usage != NO_USAGE and self._in_turn:
            tokens = usage.tokens()
            if any(tokens):
                deltas.append(UsageReported(tokens))
        if response.candidates:
            try:
                self._read_candidates(response.candidates, payload, deltas)
            except UnreadableError:
                self._unsaid = deltas
                raise
        if feedback is not None and block_reason:
            message = feedback.block_reason_message or "the prompt was blocked"
            deltas.append(ProviderFailed(block_reason, message))
        if response.error:
            deltas.append(failure(response.error))
        return deltas

    def interrupt(self) -> list[Delta]:
        """Say that a payload was lost; what was read of it is given."""
        unsaid, self._unsaid = self._unsaid, []
        return unsaid

    def close(self) -> list[Delta]:
        """Say that nothing more comes. Usage may come after the reason to stop, so not before."""
        deltas: list[Delta] = []
        for answer in self._answers.values():
            answer.end(deltas)
        if self._in_turn and self._finished:
            deltas.append(TurnClosed())
        self._in_turn = False
        self._answers = {}
        self._finished = set()
        return deltas

    def _is_next_turn(self, response: _Response) -> bool:
        """Say whether another answer begins, without a mark: after an end, under another id."""
        is_over = len(self._finished) == len(self._answers)
        return is_over and (response.response_id or "") != self._turn_id

    def _read_candidates(
        self, candidates: list[_Candidate], payload: object, deltas: list[Delta]
    ) -> None:
        self._sent.hold(payload)
        for position, candidate in enumerate(candidates):
            answer = self._answers.get(candidate.index)
            if answer is None:
                answer = PartsReader(candidate.index, self._sent, self._turn_id)
                self._answers[candidate.index] = answer
            reason = _told(candidate.finish_reason)
            ending = _ENDINGS.get(reason, "unknown") if reason else None
            parts = candidate.content.parts if candidate.content is not None else None
            if parts:
                if _have_arguments(parts):
                    refuse_duplicate_keys(payload)
                where = ("candidates", position, "content", "parts")
                answer.read(parts, where, deltas, is_cut=ending == "cut")
            if reason and ending is not None:
                self._finished.add(candidate.index)
                answer.end(deltas)
                deltas.append(TurnEnded(reason, ending, candidate.index))


def _told(reason: str | None) -> str | None:
    """Give a reason that was told. Where defaults are sent, every piece says that there is none."""
    return None if reason is None or reason.endswith("_UNSPECIFIED") else reason


def _have_arguments(parts: list[Part]) -> bool:
    for part in parts:  # noqa: SIM110 - this is for every piece, and a generator is slow
        if part.function_call is not None and part.function_call.args:
            return True
    return False
