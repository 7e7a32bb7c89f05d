"""A model that follows a script, for tests, examples and demos without a network.

::

    model = ScriptedModel(CallTool("add", {"a": 1, "b": 2}), "It is 3.")
    model = ScriptedModel(lambda request: Reply(f"{len(request.messages)} messages received."))
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from typing import Any, Literal, TypeAlias, get_args

from argstream.errors import ProviderError, UsageError
from argstream.providers import ProtocolName
from argstream.providers._payloads import json_or_none
from argstream.providers._requests import ModelRequest
from argstream.providers._stop_reasons import WORDS

Stop: TypeAlias = Literal["end_turn", "tool_calls", "paused", "length", "content_filter"]
"""Why the model stopped, as in ``TurnCompleted.stop``. It is translated for each API."""


@dataclass(frozen=True)
class Say:
    """Text for the user."""

    text: str


@dataclass(frozen=True)
class Think:
    """Thinking: a block, a summary or ``reasoning_content``, depending on the API."""

    text: str


@dataclass(frozen=True, init=False)
class CallTool:
    """A tool call. Its arguments are a mapping, or text that may be truncated or invalid JSON.

    >>> CallTool("add", {"a": 1})
    CallTool(name='add', arguments='{"a": 1}', call_id=None)
    >>> CallTool("add", '{"a": ').is_whole
    False
    """

    name: str
    arguments: str
    call_id: str | None
    """By default, an ID is generated from the numbers of the reply and the call."""

    def __init__(
        self, name: str, arguments: Mapping[str, Any] | str = "{}", *, call_id: str | None = None
    ) -> None:
        if not name or not isinstance(name, str):
            raise UsageError(f"CallTool: name must be a str that is not empty, not {name!r}")
        if isinstance(arguments, Mapping):
            arguments = json.dumps(dict(arguments), ensure_ascii=False)
        if not isinstance(arguments, str):
            raise UsageError(f"CallTool: arguments must be a mapping or a str, not {arguments!r}")
        vars(self).update(name=name, arguments=arguments, call_id=call_id)

    @property
    def value(self) -> dict[str, Any] | None:
        """The arguments as an object, or None if they are not one."""
        value = json_or_none(self.arguments)
        return value if isinstance(value, dict) else None

    @property
    def is_whole(self) -> bool:
        """Whether the arguments are a JSON object."""
        return self.value is not None


Part: TypeAlias = Say | Think | CallTool

Place: TypeAlias = int | Literal["call"]


@dataclass(frozen=True)
class _Placed:
    at: Place = "call"

    def __post_init__(self) -> None:
        if self.at != "call" and (type(self.at) is not int or self.at < 0):
            name = type(self).__name__
            raise UsageError(f'{name}: at must be an int of at least 0 or "call", not {self.at}')


class Cut(_Placed):
    """Close the connection after ``at`` bytes of the body, without a proper end."""


@dataclass(frozen=True)
class ErrorEvent(_Placed):
    """Send an error event after ``at`` events, in the format of the API, and nothing more.

    A response that is not streamed becomes an error with this status.
    """

    status: int = 529
    message: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_status("ErrorEvent", self.status)


class Malformed(_Placed):
    """Truncate the payload of the event after ``at`` events, so that it is not JSON."""


@dataclass(frozen=True)
class Status:
    """Send an error status, with a body in the format of the API."""

    status: int
    message: str = ""
    retry_after: float | None = None
    """Seconds for the header ``retry-after``. The default is 1 for status 429."""

    def __post_init__(self) -> None:
        _check_status("Status", self.status)
        if self.retry_after is not None:
            _check_seconds("Status", self.retry_after)


@dataclass(frozen=True)
class Slow:
    """Wait between events, before the first byte, or for all events together, in seconds."""

    between: float = 0.0
    before: float = 0.0
    total: float | None = None
    """If set, the events are spread evenly over this time, and ``between`` is ignored."""

    def __post_init__(self) -> None:
        for seconds in (self.between, self.before, self.total or 0.0):
            _check_seconds("Slow", seconds)


@dataclass(frozen=True)
class Split:
    """Write the bytes in chunks of these sizes, repeated.

    With a seed, the sizes are random, from 1 to the largest of ``sizes``.
    """

    sizes: tuple[int, ...] = (1,)
    seed: int | None = None

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 1:
            raise UsageError(f"Split: sizes must be at least 1, not {self.sizes}")


Fault: TypeAlias = Cut | ErrorEvent | Malformed | Status | Slow | Split


def checked_faults(faults: object) -> tuple[Fault, ...]:
    found = tuple(faults) if isinstance(faults, Iterable) else ()
    if not isinstance(faults, Iterable) or not all(isinstance(fault, Fault) for fault in found):
        raise UsageError(f"faults must be a list such as [Cut(at=500)], not {faults!r}")
    return found


def _check_status(name: str, status: int) -> None:
    if not 400 <= status <= 599:
        raise UsageError(f"{name}: status must be from 400 to 599, not {status}")


def _check_seconds(name: str, seconds: float) -> None:
    if not 0 <= seconds < 1_000_000:
        raise UsageError(f"{name}: seconds must be at least 0 and below 1000000, not {seconds}")


@dataclass(frozen=True, init=False)
class Reply:
    """One answer of the model: its parts in order, why it stopped, and its faults.

    Faults are for ``MockProvider``. ``ScriptedModel`` has no connection and refuses them.

    A str is short for ``Say``. The default of ``stop`` is ``tool_calls`` if the reply calls a tool,
    otherwise ``end_turn``.

    >>> Reply("Hello").stop, Reply(CallTool("now")).stop
    ('end_turn', 'tool_calls')
    """

    parts: tuple[Part, ...]
    stop: Stop
    piece_size: int
    """Characters per delta."""
    faults: tuple[Fault, ...]

    def __init__(
        self,
        *parts: Part | str,
        stop: Stop | None = None,
        faults: Iterable[Fault] = (),
        piece_size: int = 4,
    ) -> None:
        whole = tuple(Say(part) if isinstance(part, str) else part for part in parts)
        if stop is None:
            calls = any(isinstance(part, CallTool) for part in whole)
            stop = "tool_calls" if calls else "end_turn"
        if stop not in get_args(Stop):
            raise UsageError(
                f"Reply: stop must be one of {', '.join(get_args(Stop))}, not {stop!r}"
            )
        if piece_size < 1:
            raise UsageError(f"Reply: piece_size must be at least 1, not {piece_size!r}")
        faults = checked_faults(faults)
        vars(self).update(parts=whole, stop=stop, piece_size=piece_size, faults=faults)

    @property
    def is_cut(self) -> bool:
        """Whether the model was stopped before it had finished."""
        return self.stop in ("length", "content_filter")


Answer: TypeAlias = Reply | Part | str | Exception
"""A scripted answer. An exception, such as a ``ProviderError``, is raised."""


class ScriptedModel:
    """A model that returns scripted answers in order, in the format of Anthropic's API.

    An answer is a ``Reply``, a part of one, a text, an exception to raise, or a function that
    returns one of these for a request. After the last one, requests fail with the code
    ``script_over``, unless ``repeat`` starts again. ``piece_size`` is the number of characters per
    delta and overrides that of replies. ``delay`` is the seconds before each delta.
    """

    def __init__(
        self,
        *replies: Answer | Callable[[ModelRequest], Answer],
        piece_size: int | None = None,
        delay: float = 0.0,
        repeat: bool = False,
        name: str = "scripted",
    ) -> None:
        if piece_size is not None and piece_size < 1:
            raise UsageError(f"ScriptedModel: piece_size must be at least 1, not {piece_size!r}")
        if delay < 0:
            raise UsageError(f"ScriptedModel: delay must be at least 0, not {delay!r}")
        for reply in replies:
            if not callable(reply):
                _checked(reply)
        self.name = name
        self.protocol: ProtocolName = "anthropic"
        self.requests: list[ModelRequest] = []
        """All requests so far."""
        self._replies = replies
        self._piece_size = piece_size
        self._delay = delay
        self._repeat = repeat

    def __repr__(self) -> str:
        return f"<ScriptedModel {self.name}: {len(self._replies)} replies>"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the payloads of the next answer."""
        self.requests.append(request)
        number = len(self.requests)
        reply = self._reply(number, request)
        for payload in _payloads(reply, number, self._piece_size or reply.piece_size):
            if payload["type"] != "content_block_delta" or self._delay:
                # Other tasks may run, at least between two blocks.
                await asyncio.sleep(self._delay)
            yield payload

    def _reply(self, number: int, request: ModelRequest) -> Reply:
        if not self._replies or (number > len(self._replies) and not self._repeat):
            sent = len(self._replies)
            message = f"the script has no more replies ({sent} sent). Add one, or pass repeat=True"
            raise ProviderError("script_over", message)
        given = self._replies[(number - 1) % len(self._replies)]
        answer = given(request) if callable(given) else given
        if isinstance(answer, Exception):
            raise answer
        return _checked(answer)


def _checked(answer: object) -> Reply:
    if isinstance(answer, Exception):
        return Reply()
    if isinstance(answer, str | Say | Think | CallTool):
        return Reply(answer)
    if not isinstance(answer, Reply):
        raise UsageError(
            f"ScriptedModel: an answer must be a Reply, a part of one or a str, not {answer!r}"
        )
    if answer.faults:
        raise UsageError(
            "ScriptedModel does not support faults. Use argstream.testing.MockProvider"
        )
    return answer


def _payloads(reply: Reply, number: int, piece_size: int) -> Iterator[dict[str, Any]]:
    usage = {"input_tokens": 100 * number, "output_tokens": 1}
    message: dict[str, Any] = {"id": f"msg_scripted_{number}", "type": "message"}
    message |= {"role": "assistant", "model": "scripted", "content": []}
    message |= {"stop_reason": None, "usage": usage}
    yield {"type": "message_start", "message": message}
    written = 0
    calls = count()
    for index, part in enumerate(reply.parts):
        call_id = f"toolu_scripted_{number}_{next(calls)}" if isinstance(part, CallTool) else ""
        for payload in anthropic_block(reply, index, call_id, piece_size):
            written += payload["type"] == "content_block_delta"
            yield payload
    delta = {"stop_reason": WORDS["anthropic"][reply.stop], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": usage | {"output_tokens": written}}
    yield {"type": "message_stop"}


def anthropic_block(
    reply: Reply, index: int, call_id: str, piece_size: int
) -> Iterator[dict[str, Any]]:
    """Yield a part of a reply as Anthropic sends it. A call that was cut off has no stop event."""
    part = reply.parts[index]
    block: dict[str, Any]
    if isinstance(part, CallTool):
        block = {"type": "tool_use", "id": part.call_id or call_id, "name": part.name, "input": {}}
        text, type_, field = part.arguments, "input_json_delta", "partial_json"
    elif isinstance(part, Say):
        block = {"type": "text", "text": ""}
        text, type_, field = part.text, "text_delta", "text"
    else:
        block = {"type": "thinking", "thinking": "", "signature": ""}
        text, type_, field = part.text, "thinking_delta", "thinking"
    starts = range(0, len(text), piece_size)
    deltas = [{"type": type_, field: text[start : start + piece_size]} for start in starts]
    if isinstance(part, Think):
        deltas.append({"type": "signature_delta", "signature": signature(text)})
    yield {"type": "content_block_start", "index": index, "content_block": block}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    is_last = index == len(reply.parts) - 1
    if not (is_last and reply.is_cut and isinstance(part, CallTool) and not part.is_whole):
        yield {"type": "content_block_stop", "index": index}


def signature(text: str) -> str:
    return "mock_" + sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]
