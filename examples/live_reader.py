"""Watch a model write a file and edit another, without a single event. The provider is a mock.

With a real one, pass ``anthropic.Anthropic().messages.create(..., stream=True)`` to ``stream()``.
With an async client, use ``async for`` and ``await``.
"""

import json
import sys
from urllib.request import Request, urlopen

from argstream import stream
from argstream.errors import ArgumentUnavailableError, StreamError
from argstream.sanitise import visible
from argstream.streaming import CallReader
from argstream.testing import CallTool, MockProvider, Reply, Say, Slow

SOURCE = 'def greet(name):\n    print(f"hello, {name}")\n'
EDITS = [{"line": 1, "text": "from greet import greet"}, {"line": 9, "text": "greet('you')"}]


def main() -> int:
    """Ask for a file, and show what the model does while it does it."""
    reply = Reply(
        Say("I will write it."),
        CallTool("write_file", {"path": "greet.py", "content": SOURCE}),
        CallTool("edit_file", {"path": "main.py", "edits": EDITS}),
        faults=[Slow(between=0.01)],
    )
    with MockProvider(reply) as provider, urlopen(request(provider.url)) as response:  # noqa: S310 - ours
        try:
            for call in stream(response).live_calls():
                show(call)
        except ArgumentUnavailableError as error:  # a call that is not what it should be
            print(f"[refused: {visible(str(error))}]")
            return 1
        except StreamError as error:  # the provider reported an error, or hung up
            print(f"[failed: {visible(str(error))}]")
            return 1
    return 0


def show(call: CallReader) -> None:
    """Print a call while it is written."""
    path = call.argument("path", type=str)  # the first to be settled; the rest is not there yet
    print(f"[{visible(call.name)} {visible(path)}]")
    if call.name == "write_file":
        for piece in call.text("content"):
            print(visible(piece), end="", flush=True)
    else:
        for edit in call.items("edits"):
            print(f"{edit['line']}: {visible(edit['text'])}")
    arguments = call.arguments()  # only now is it certain that nothing is missing
    print(f"[complete: {len(arguments)} arguments]")


def request(url: str) -> Request:
    """Make the request that any client would make."""
    body = {
        "model": "claude-mock",
        "max_tokens": 1024,
        "stream": True,
        "messages": [{"role": "user", "content": "Write greet.py, and use it in main.py."}],
    }
    headers = {"x-api-key": "any", "anthropic-version": "2023-06-01"}
    return Request(f"{url}/v1/messages", json.dumps(body).encode(), headers)  # noqa: S310 - ours


if __name__ == "__main__":
    sys.exit(main())
