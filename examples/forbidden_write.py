"""Stop a model that writes where it must not, before it has written what. Needs no key.

The tool and a policy are given to ``stream()``. The path settles long before the content is
generated: the policy denies it, and the connection is closed. With a real provider, only the
``base_url`` of the client goes away.
"""

import sys
import tempfile
import time
from pathlib import Path

from anthropic import Anthropic
from anthropic.types import ToolParam

from argstream import ArgumentCompleted, ToolArgsInvalid, ToolCallStarted, TurnCompleted, stream
from argstream.policy import Policy
from argstream.sanitise import visible_line
from argstream.testing import CallTool, MockProvider, Reply, Slow

TOOLS: list[ToolParam] = [
    {
        "name": "write_file",
        "description": "Write a file of the project.",
        "input_schema": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"],
            "additionalProperties": False,
        },
    }
]
POLICY = """
default = "allow"

[[rules]]
name = "stay in the project"
action = "allow"
tool = "write_file"
argument = "path"
under = "{project}"

[[rules]]
name = "nowhere else"
action = "deny"
tool = "write_file"
reason = "only files of the project may be written"
"""
CONTENT = "root::0:0:root:/root:/bin/sh\n" * 200


def main() -> int:
    """Let a mock model try to write a file that is none of its business."""
    path = "../../etc/passwd"
    reply = Reply(
        CallTool("write_file", {"path": path, "content": CONTENT}), faults=[Slow(between=0.002)]
    )
    with tempfile.TemporaryDirectory() as project, MockProvider(reply) as provider:
        policy = Policy.from_toml(POLICY.format(project=Path(project).as_posix()))
        client = Anthropic(base_url=provider.anthropic_url, api_key="any")
        question = client.messages.create(
            model="claude-mock",
            max_tokens=4096,
            tools=TOOLS,
            messages=[{"role": "user", "content": "Go on."}],
            stream=True,
        )
        for event in stream(question, tools=TOOLS, policy=policy):
            match event:
                case ToolCallStarted(name=name):
                    print(f"{visible_line(name)} …")
                case ArgumentCompleted(path=("path",), value=value):
                    print(f"  path = {visible_line(str(value))}")
                case ToolArgsInvalid(error=error):
                    print(f"  rejected: {visible_line(error.message)}")
                case TurnCompleted(stop_reason="rejected", characters_read=read):
                    print(f"  stopped after {read} characters; {len(CONTENT)} were to follow")
        hang_up = wait_for_hang_up(provider)
        print(f"the provider saw the connection closed after {hang_up:.0%} of its answer")
        return 0 if hang_up < 0.5 else 1


def wait_for_hang_up(provider: MockProvider) -> float:
    """Wait until the provider notices: it does when it sends more. Give the share that was sent."""
    for _ in range(500):
        if provider.hang_ups:
            sent, whole = provider.hang_ups[0]
            return sent / whole
        time.sleep(0.01)
    return 1.0


if __name__ == "__main__":
    sys.exit(main())
