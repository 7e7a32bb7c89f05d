"""What is streamed: one tool call, as each provider sends it over the network.

The arguments are the long string of ``workloads``, cut into the same pieces, one event for each.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import big_streams
import other_streams
from tables import size_name
from workloads import chunks, one_string

ANTHROPIC, CHAT, RESPONSES = "Anthropic", "OpenAI Chat", "OpenAI Responses"
PROTOCOLS = [ANTHROPIC, CHAT, RESPONSES]
"""Those that are measured beside their SDKs."""
PARTIAL_ARGS = "Gemini, partialArgs"

_STREAMS: dict[str, Callable[[str, Iterable[str]], Iterator[bytes]]] = {
    ANTHROPIC: big_streams.anthropic,
    CHAT: big_streams.openai_chat,
    RESPONSES: big_streams.openai_responses,
    "OpenAI Realtime": other_streams.openai_realtime,
    "Bedrock ConverseStream": other_streams.bedrock,
    "Bedrock Invoke": other_streams.bedrock_invoke,
    "Claude Agent SDK": other_streams.claude_agent,
    "Cohere": other_streams.cohere,
    "Gemini Interactions": other_streams.gemini_interactions,
    PARTIAL_ARGS: other_streams.gemini,
}
ALL_PROTOCOLS = list(_STREAMS)

_READ = 16 * 1024


@dataclass(frozen=True)
class WireWorkload:
    """One stream, as the bytes that arrive."""

    protocol: str
    size: int
    arguments: str
    """The text that all pieces make together."""
    deltas: int
    """Into how many pieces it was cut."""
    chunks: list[bytes]
    name: str

    @classmethod
    def of(cls, protocol: str, size: int) -> "WireWorkload":
        """Write the stream of a provider, one network chunk for each event."""
        arguments = one_string(size)
        pieces = chunks(arguments)
        events = list(_STREAMS[protocol](arguments, pieces))
        name = workload_name(protocol, size)
        return cls(protocol, size, arguments, len(pieces), events, name)

    def in_large_reads(self) -> "WireWorkload":
        """Give the same bytes as they come when the reader was busy: 16 kB at a time."""
        data = b"".join(self.chunks)
        reads = [data[start : start + _READ] for start in range(0, len(data), _READ)]
        name = workload_name(self.protocol, self.size, large_reads=True)
        return replace(self, chunks=reads, name=name)


def workload_name(protocol: str, size: int, *, large_reads: bool = False) -> str:
    """Name a stream, to find its figures by."""
    return f"{protocol} {size_name(size)}" + ", 16 kB reads" * large_reads
