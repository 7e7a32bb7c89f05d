"""A request → its answer: which reply is next, whether the request is one, and what it had."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from argstream.testing._mock_answers import (
    Answer,
    error_answer,
    fault_answer,
    stream_answer,
    whole_answer,
)
from argstream.testing._mock_anthropic import AnthropicDialect
from argstream.testing._mock_memory import Memory
from argstream.testing._mock_openai_chat import ChatDialect
from argstream.testing._mock_openai_responses import ResponsesDialect
from argstream.testing._mock_recording import RecordedAnswer
from argstream.testing._mock_server import RawRequest
from argstream.testing._mock_wire import Dialect, Problem, Turn, decode, encode
from argstream.testing.faults import Cut, ErrorEvent, Fault, Malformed
from argstream.testing.script import Reply

__all__ = ["ReceivedRequest", "Responder"]

_ANTHROPIC: Final[Dialect] = AnthropicDialect()
_CHAT: Final[Dialect] = ChatDialect()
_RESPONSES: Final[Dialect] = ResponsesDialect()
_DIALECTS: Final = {dialect.route: dialect for dialect in (_ANTHROPIC, _CHAT, _RESPONSES)}
_ROUTES: Final = ", ".join(f"POST {route}" for route in _DIALECTS)
# What leaves a client without all of an answer, so that it cannot give it back.
_DAMAGE: Final = (Cut, ErrorEvent, Malformed)
# Parts of the names of headers whose values are secrets.
_SECRET: Final = ("auth", "key", "token", "secret", "cookie")


@dataclass(frozen=True)
class ReceivedRequest:
    """A request that came, without the key that it had."""

    number: int
    method: str
    path: str
    headers: Mapping[str, str]
    """By name in lower case; the value of one that could hold a secret is ``[removed]``."""
    body: dict[str, Any] | None
    """None if it was not a JSON object."""
    status: int
    """Of the answer."""
    problems: tuple[str, ...]
    """Why it was refused, if it was."""

    @property
    def is_streamed(self) -> bool:
        """Whether it asked for a stream."""
        return self.body is not None and self.body.get("stream") is True


class Responder:
    """Answers requests one after the other, from any thread."""

    def __init__(
        self,
        answers: Sequence[Reply | RecordedAnswer],
        faults: Sequence[Fault],
        *,
        repeats: bool,
        on_request: Callable[[ReceivedRequest], None] | None,
    ) -> None:
        self._answers = answers
        self._faults = faults
        self._repeats = repeats
        self._on_request = on_request
        self._lock = threading.Lock()  # for what follows: each connection has its thread
        self._requests: list[ReceivedRequest] = []
        self._answered = 0
        self._memory = Memory()
        has_recording = any(isinstance(answer, RecordedAnswer) for answer in answers)
        self._known = None if has_recording else self._memory

    @property
    def requests(self) -> list[ReceivedRequest]:
        """Every request so far."""
        with self._lock:
            return list(self._requests)

    def respond(self, raw: RawRequest) -> Answer:
        """Decide an answer, and remember the request."""
        path = raw.path.partition("?")[0]  # some put a key into what follows
        body = _object(raw.body)
        with self._lock:
            answer, problems = self._decide(raw, path, body)
            request = ReceivedRequest(
                number=len(self._requests) + 1,
                method=raw.method,
                path=path,
                headers=_without_secrets(raw.headers),
                body=body,
                status=answer.status,
                problems=tuple(problem.message for problem in problems),
            )
            self._requests.append(request)
        if self._on_request is not None:
            self._on_request(request)
        # Anthropic's name for it, and OpenAI's.
        ids = dict.fromkeys(("request-id", "x-request-id"), f"req_mock_{request.number}")
        return replace(answer, headers={**answer.headers, **ids})

    def _decide(
        self, raw: RawRequest, path: str, body: dict[str, Any] | None
    ) -> tuple[Answer, list[Problem]]:
        dialect = _DIALECTS.get(path) if raw.method == "POST" else None
        if self._is_for_anything():
            return self._next(dialect or _CHAT, body or {}), []
        if dialect is None:
            dialect = _ANTHROPIC if "anthropic-version" in raw.headers else _CHAT
            problems = [Problem(f"there is no {raw.method} {path} here; there are: {_ROUTES}", 404)]
        elif body is None:
            problems = [Problem("the body must be a JSON object")]
        else:
            problems = dialect.problems(raw.headers, body, self._known)
            problems = problems or self._lacking(dialect, body)
            if not problems:
                return self._next(dialect, body), []
        message = "; ".join(problem.message for problem in problems)
        return error_answer(dialect, problems[0].status, message), problems

    def _is_for_anything(self) -> bool:
        """Say whether the next answer is of an API of which nothing else is known."""
        if self._answered >= len(self._answers) and not self._repeats:
            return False
        answer = self._scripted()
        return isinstance(answer, RecordedAnswer) and not answer.protocol

    def _lacking(self, dialect: Dialect, body: dict[str, Any]) -> list[Problem]:
        """Say why there is no answer to a request that is right in itself."""
        if self._answered >= len(self._answers) and not self._repeats:
            message = "the script is over after {} replies: add one, or say repeat=True"
            return [Problem(message.format(len(self._answers)))]
        answer = self._scripted()
        if isinstance(answer, Reply):
            return []
        if answer.protocol != dialect.protocol:
            return [Problem(f"the recording is of {answer.protocol}, not of {dialect.protocol}")]
        is_stream = answer.whole is None
        if answer.status < 400 and is_stream != (body.get("stream") is True):
            found, wanted = ("a stream", "true") if is_stream else ("no stream", "false")
            return [Problem(f"the recording is {found}: ask for it with stream: {wanted}")]
        return []

    def _scripted(self) -> Reply | RecordedAnswer:
        return self._answers[self._answered % len(self._answers)]

    def _next(self, dialect: Dialect, body: dict[str, Any]) -> Answer:
        answer = self._scripted()
        self._answered += 1
        streamed = body.get("stream") is True
        own = answer.faults if isinstance(answer, Reply) else ()
        faults = (*self._faults, *own)
        failure = fault_answer(dialect, faults, streamed=streamed)
        if failure is not None:
            return failure
        if isinstance(answer, Reply):
            turn = Turn(self._answered, answer, body)
            is_damaged = any(isinstance(fault, _DAMAGE) for fault in faults)
            self._memory.remember(dialect.protocol, turn, is_damaged=is_damaged)
            if streamed:
                return stream_answer(dialect, dialect.streamed(turn), faults)
            return whole_answer(encode(dialect.whole(turn)), faults)
        if answer.timed is not None:
            return answer.timed
        if answer.whole is not None:
            return answer.dressed(whole_answer(answer.whole, faults))
        return answer.dressed(stream_answer(dialect, answer.events, faults))


def _object(body: bytes) -> dict[str, Any] | None:
    value = decode(body)
    return value if isinstance(value, dict) else None


def _without_secrets(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        name: "[removed]" if any(word in name for word in _SECRET) else value
        for name, value in headers.items()
    }
