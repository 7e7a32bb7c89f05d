"""A provider that one can start: the real clients talk to it, and it says what a script says.

::

    with MockProvider(Reply(CallTool("add", {"a": 1, "b": 2}))) as provider:
        client = anthropic.Anthropic(base_url=provider.anthropic_url, api_key="any")
        ...
        provider.check()

It serves Anthropic Messages, OpenAI Chat Completions and OpenAI Responses, streamed or not, on the
loopback interface only.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from argstream.clients import Reply as ScriptedReply
from argstream.errors import UsageError
from argstream.testing._mock_recording import RecordedAnswer, read_answer
from argstream.testing._mock_responder import ReceivedRequest, Responder
from argstream.testing._mock_server import HangUp, MockServer
from argstream.testing.faults import Fault, checked_faults
from argstream.testing.script import Reply

__all__ = ["HangUp", "MockProvider", "ReceivedRequest"]


class MockProvider:
    """A server on the loopback interface that answers as a script or a recording says.

    A single reply answers every request. A list answers one request each; what comes after its end
    is refused, unless ``repeat`` starts it again. A request that is refused uses no reply.

    ``faults`` are made in every answer, besides those of the reply itself. ``on_request`` is called
    for each request, in the thread that answers it, before the answer is sent.
    """

    def __init__(
        self,
        script: ScriptedReply | RecordedAnswer | Sequence[ScriptedReply | RecordedAnswer],
        *,
        faults: Iterable[Fault] = (),
        repeat: bool = False,
        port: int = 0,
        on_request: Callable[[ReceivedRequest], None] | None = None,
    ) -> None:
        if isinstance(script, ScriptedReply | RecordedAnswer):
            script, repeat = (script,), True
        given = tuple(script)
        if not given or not all(isinstance(one, ScriptedReply | RecordedAnswer) for one in given):
            raise UsageError("MockProvider: give it a Reply, or a list of at least one")
        answers = [Reply.of(one) if isinstance(one, ScriptedReply) else one for one in given]
        self._responder = Responder(
            answers, checked_faults(faults), repeats=repeat, on_request=on_request
        )
        self._port = port
        self._server: MockServer | None = None
        self._hang_ups: list[HangUp] = []

    @classmethod
    def replaying(
        cls,
        *recordings: str | Path | bytes,
        faults: Iterable[Fault] = (),
        timed: bool = False,
        repeat: bool = False,
        port: int = 0,
        on_request: Callable[[ReceivedRequest], None] | None = None,
    ) -> Self:
        """Serve recorded answers: files, or their bytes.

        That is recordings of ``argstream record``, or bodies of server-sent events or JSON lines.
        One recording answers every request to its API, several answer one request each. ``timed``
        sends each chunk of a recording when it came; then there are no faults.
        """
        if timed and tuple(faults):
            raise UsageError("MockProvider: timed sends what was recorded, so it makes no faults")
        read = [read_answer(recording, timed=timed) for recording in recordings]
        return cls(
            read[0] if len(read) == 1 else read,
            faults=faults,
            repeat=repeat,
            port=port,
            on_request=on_request,
        )

    def start(self) -> Self:
        """Begin to listen; ``with`` does it."""
        if self._server is not None:
            raise UsageError("MockProvider: it is running already; stop it first")
        self._server = MockServer(self._port, self._responder.respond, self._hang_ups)
        return self

    def stop(self) -> None:
        """End at once, also in the middle of an answer; ``with`` does it."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The address of the server, without a path."""
        if self._server is None:
            raise UsageError("MockProvider: it has no address until it runs; use `with`")
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def anthropic_url(self) -> str:
        """The ``base_url`` for Anthropic's client."""
        return self.url

    @property
    def openai_url(self) -> str:
        """The ``base_url`` for OpenAI's client, which wants the version in it."""
        return f"{self.url}/v1"

    @property
    def requests(self) -> list[ReceivedRequest]:
        """Every request so far, also those that were refused."""
        return self._responder.requests

    @property
    def hang_ups(self) -> list[HangUp]:
        """The answers during which the client went away. That shows when more is sent."""
        return list(self._hang_ups)

    def check(self) -> None:
        """Raise an error that lists what was wrong with the requests, if anything was."""
        problems = [
            f"request {request.number}, {request.method} {request.path}: {problem}"
            for request in self.requests
            for problem in request.problems
        ]
        if problems:
            raise UsageError("\n".join(["the mock provider refused:", *problems]))
