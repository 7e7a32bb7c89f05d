"""From a provider's bytes to events: beside the SDKs, on top of them, and for each protocol."""

import json
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeAlias

import anthropic
import httpx2
import openai

from argstream import ToolArgsCompleted, ToolArgsDelta, stream
from report import Cell, Chapter, Table, fraction, microseconds, number, size_name, times
from timing import Job, cpu_time, exhaust, take_turns, versions
from workloads import ANTHROPIC, CHAT, PROTOCOLS, call_bytes, chunks, one_string

Opener: TypeAlias = Callable[[], AbstractContextManager[Iterable[Any]]]

_MOST_GROWTH = 1.25
_MOST_BYTES_PER_CHARACTER = 4.0
_MOST_ON_TOP = 1.3

_OURS = "argstream"
_MESSAGES = [{"role": "user", "content": "Hello"}]
_CLAUDE: dict[str, Any] = {"model": "claude-haiku-4-5", "max_tokens": 9, "messages": _MESSAGES}
_GPT: dict[str, Any] = {"model": "gpt-4o-mini", "messages": _MESSAGES}

# argstream's cost from bytes as a fraction of the SDK's
_BUDGETS = {"anthropic messages.stream": 1 / 10, "openai chat.completions.stream": 1 / 30}
_NOT_READ_BY_STREAM = {"openai chat.completions.stream"}


def measure(*, quick: bool = False) -> Chapter:
    """Measure the SDKs, then argstream with every protocol."""
    return Chapter(
        "From bytes to events",
        "CPU time per delta of a call with one long string. *On top*: `stream(sdk_stream)`, "
        "divided by the SDK alone. *Growth*: the time at 1 MB, divided by that at 10 kB. Memory: "
        "`tracemalloc` while a call is open, per character of its arguments.",
        [_beside_sdks(quick=quick)],
        versions("anthropic", "openai", "pydantic", "httpx2"),
    )


def _beside_sdks(*, quick: bool) -> Table:
    size = 10_000 if quick else 100_000
    arguments = one_string(size)
    deltas = len(chunks(arguments))
    jobs, sdks = [], {}
    for protocol in PROTOCOLS:
        data = call_bytes(protocol, arguments)
        ways = {_OURS: _opener(data)}
        for sdk, open_ in _sdk_openers(protocol, data).items():
            sdks[sdk] = protocol
            ways[sdk] = open_
            if sdk not in _NOT_READ_BY_STREAM:
                ways[f"on {sdk}"] = partial(_stream_of, open_)
                _demand_right(ways[f"on {sdk}"], arguments, sdk)
        jobs += [Job(way, protocol, partial(_read, open_, deltas)) for way, open_ in ways.items()]
    found = take_turns(jobs, rounds=1 if quick else 3, most_seconds=6.0)
    of_protocols = _growth_and_memory(quick=quick)
    rows: list[list[Cell]] = []
    for sdk, protocol in sdks.items():
        ours, theirs = found[_OURS, protocol], found[sdk, protocol]
        both = found.get((f"on {sdk}", protocol))
        on_top: Cell = times(both / theirs, _MOST_ON_TOP) if both else "–"
        ratio = fraction(ours / theirs, _BUDGETS.get(sdk))
        own = of_protocols.pop(protocol, ["–", "–"])
        rows.append([sdk, microseconds(theirs), microseconds(ours), ratio, on_top, *own])
    header = [f"SDK, {size_name(size)}", "SDK, µs", "argstream, µs", "argstream / SDK", "on top"]
    return Table([*header, "growth", "memory"], rows)


def _sdk_openers(protocol: str, data: list[bytes]) -> dict[str, Callable[[], Any]]:
    """Return the ways to read a stream with the official client, whose response is in memory."""

    class Body(httpx2.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            return iter(data)

    def respond(_: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, stream=Body())

    http = httpx2.Client(transport=httpx2.MockTransport(respond))
    messages = anthropic.Anthropic(api_key="none", http_client=http).messages
    client = openai.OpenAI(api_key="none", http_client=http)
    chat, responses = client.chat.completions, client.responses
    if protocol == ANTHROPIC:
        return {
            "anthropic messages.stream": partial(messages.stream, **_CLAUDE),
            "anthropic messages.create": partial(messages.create, stream=True, **_CLAUDE),
        }
    if protocol == CHAT:
        return {
            "openai chat.completions.stream": partial(chat.stream, **_GPT),
            "openai chat.completions.create": partial(chat.create, stream=True, **_GPT),
        }
    create = partial(responses.create, model=_GPT["model"], input="Hello", stream=True)
    return {"openai responses.create": create}


def _growth_and_memory(*, quick: bool) -> dict[str, list[Cell]]:
    small, large = (3_000, 30_000) if quick else (10_000, 1_000_000)
    jobs, memory = [], {}
    for protocol in PROTOCOLS:
        data = {size: call_bytes(protocol, one_string(size)) for size in (small, large)}
        _peak(data[small])  # what is made once is made here
        memory[protocol] = (_peak(data[large]) - _peak(data[small])) / (large - small)
        for size, sent in data.items():
            open_ = _opener(sent)
            _demand_right(open_, one_string(size), protocol)
            deltas = len(chunks(one_string(size)))
            jobs.append(Job(protocol, size_name(size), partial(_read, open_, deltas)))
    found = take_turns(jobs, rounds=1 if quick else 3)
    cells: dict[str, list[Cell]] = {}
    for protocol in PROTOCOLS:
        before, after = (found[protocol, size_name(size)] for size in (small, large))
        memory_cell = number(memory[protocol], _MOST_BYTES_PER_CHARACTER, " B")
        cells[protocol] = [times(after / before, _MOST_GROWTH), memory_cell]
    return cells


def _opener(data: list[bytes]) -> Opener:
    return lambda: stream(data)


def _stream_of(open_: Opener) -> AbstractContextManager[Iterable[Any]]:
    return stream(open_())


def _read(open_: Opener, deltas: int) -> float:
    def work() -> None:
        with open_() as events:
            exhaust(events)

    return cpu_time(work, deltas)


def _demand_right(open_: Opener, arguments: str, name: str) -> None:
    """Exit if the events have other arguments than were sent: that is not worth measuring."""
    with open_() as events:
        found = [event.arguments for event in events if isinstance(event, ToolArgsCompleted)]
    if found != [json.loads(arguments)]:
        sys.exit(f"{name}: the arguments are not those that were sent")


def _peak(data: list[bytes]) -> int:
    """Return the most memory that was in use until the last piece of the arguments."""
    peak = 0
    tracemalloc.start()
    try:
        for event in stream(data):
            if isinstance(event, ToolArgsDelta):
                peak = tracemalloc.get_traced_memory()[1]
        return peak
    finally:
        tracemalloc.stop()
