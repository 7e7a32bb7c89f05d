"""Watch a model write a file, before it has written it. Needs no key: the provider is a mock.

With a real one, pass ``anthropic.Anthropic().messages.create(..., stream=True)`` to ``stream()``.
"""

import json
import sys
from urllib.request import Request, urlopen

from argstream import ArgumentDelta, Event, ToolArgsCompleted, ToolCallStarted, stream
from argstream.sanitise import visible
from argstream.testing import CallTool, MockProvider, Reply, Say, Slow

SOURCE = 'def greet(name):\n    print(f"hello, {name}")\n'


def main() -> int:
    """Ask for a file, and show it as it grows."""
    reply = Reply(
        Say("I will write it."),
        CallTool("write_file", {"path": "greet.py", "content": SOURCE}),
        faults=[Slow(between=0.01)],
    )
    with MockProvider(reply) as provider, urlopen(request(provider.url)) as response:  # noqa: S310 - ours
        events = stream(response)
        for event in events:
            show(event)
        (call,) = events.calls
        return 0 if call.verdict == "complete" else 1


def request(url: str) -> Request:
    """Make the request that any client would make."""
    body = {
        "model": "claude-mock",
        "max_tokens": 1024,
        "stream": True,
        "messages": [{"role": "user", "content": "Write greet.py."}],
    }
    headers = {"x-api-key": "any", "anthropic-version": "2023-06-01"}
    return Request(f"{url}/v1/messages", json.dumps(body).encode(), headers)  # noqa: S310 - ours


def show(event: Event) -> None:
    """Print what is new."""
    match event:
        case ToolCallStarted(name=name):
            print(f"[{visible(name)}]")
        case ArgumentDelta(path=("content",), text=text):
            print(visible(text), end="", flush=True)
        case ToolArgsCompleted(arguments={"path": path}):
            print(f"[complete: now {visible(path)} can be written]")
        case _:
            pass


if __name__ == "__main__":
    sys.exit(main())
