"""``argstream mock``: a provider on this machine, for the real clients to talk to."""

import contextlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from argstream.cli._input import complain
from argstream.cli._interruptions import Interruptions
from argstream.errors import UsageError
from argstream.sanitise import visible_line
from argstream.testing import Fault, MockProvider, ReceivedRequest, Reply, Slow
from argstream.testing.faults import parse_fault
from argstream.testing.script import EXAMPLE, parse_script

__all__ = ["serve_mock"]


def serve_mock(file: str, *, port: int, pace: float, faults: Iterable[str], is_timed: bool) -> int:
    """Serve a script or a recording, or an example for "", until it is interrupted.

    ``pace`` is the seconds between two events, unless they come when they were recorded. Returns
    the exit status: 130 when it was interrupted, 2 if it cannot start.
    """
    try:
        made: list[Fault] = [Slow(between=pace), *map(parse_fault, faults)]
        provider = _timed_provider(file, port) if is_timed else _provider(file, port, made)
        with Interruptions() as interruptions, provider:
            _say(_greeting(provider))
            interruptions.wait()  # the server has threads of its own
    except UsageError as error:
        complain(visible_line(str(error)))
        return 2
    except KeyboardInterrupt:
        return 130


def _provider(file: str, port: int, faults: Sequence[Fault]) -> MockProvider:
    data = _read(file)
    if data is None or _is_script(data):
        replies: Sequence[Reply] = EXAMPLE if data is None else parse_script(data)
        return MockProvider(replies, repeat=True, faults=faults, port=port, on_request=_log)
    return MockProvider.replaying(data, faults=faults, port=port, on_request=_log)


def _timed_provider(file: str, port: int) -> MockProvider:
    data = _read(file)
    if data is None:
        raise UsageError("--timed plays a recording: name one")
    return MockProvider.replaying(data, timed=True, port=port, on_request=_log)


def _read(file: str) -> bytes | None:
    if not file:
        return None
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error


def _is_script(data: bytes) -> bool:
    """Say whether it is one document with replies; if it was meant to be, the reader says why."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return b'"replies"' in data[:100]
    return isinstance(document, dict) and "replies" in document


def _greeting(provider: MockProvider) -> str:
    return (
        f"A mock provider at {provider.url}, until Ctrl-C. Any key will do:\n\n"
        f'  anthropic.Anthropic(base_url="{provider.anthropic_url}", api_key="any")\n'
        f'  openai.OpenAI(base_url="{provider.openai_url}", api_key="any")\n'
    )


def _log(request: ReceivedRequest) -> None:
    words = [str(request.status), request.method, request.path]
    if request.is_streamed:
        words.append("streamed")
    words += [f"- {problem}" for problem in request.problems]
    with contextlib.suppress(OSError):  # who reads no longer gets no lines, but still answers
        _say(visible_line(" ".join(words)))


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - this is what it is for
