"""Source 000: the usage pattern of ``agent.run_stream``, with what it prints.

Its names are these here: ``ToolUseStart`` is ``ToolCallStarted``, ``ToolInputDelta`` is
``ToolArgsDelta``, ``ToolResult`` is ``ToolCallCompleted`` or ``ToolCallFailed``, and its context is
a ``Conversation``.
"""

import pytest

from argstream import ToolArgStream, ToolFieldDelta, ToolFieldEnd, ToolFieldStart
from argstream import events as ev
from argstream.agent import Agent, Conversation
from argstream.models import CallTool, Reply, ScriptedModel
from tests.agent.following import complete

FILE = CallTool("write_file", {"path": "/tmp/foo.py", "content": 'print("Hello")\n\t# 😀'})
SHOWN = """\
▶ write_file

  path: /tmp/foo.py
  content: print("Hello")
\t# 😀
wrote /tmp/foo.py
"""


def write_file(path: str, content: str) -> str:
    assert content.endswith("😀")
    return f"wrote {path}"


async def usage_pattern(agent: Agent, prompt: str, ctx: Conversation) -> None:
    """The loop of the source, line by line, with our names."""
    parsers: dict[str, ToolArgStream] = {}

    async for event in agent.run_stream(prompt, ctx):
        match event:
            case ev.ToolCallStarted(call_id=tid, name=name):
                # Create a new parser for this tool call
                parsers[tid] = ToolArgStream(tid)
                print(f"▶ {name}")

            case ev.ToolArgsDelta(call_id=tid, delta=delta):
                # Parse streaming JSON into field events
                for field_event in parsers[tid].feed(delta):
                    match field_event:
                        case ToolFieldStart(key=key):
                            print(f"\n  {key}: ", end="", flush=True)
                        case ToolFieldDelta(text=text):
                            print(text, end="", flush=True)
                        case ToolFieldEnd():
                            pass  # Field complete

            case ev.ToolCallCompleted(call_id=tid, result=result):
                print(f"\n{result}")
                parsers.pop(tid, None)  # Clean up parser

            case _:
                pass
    assert not parsers


@pytest.mark.parametrize("piece_size", [1, 3, 1000])
def test_usage_pattern_prints_fields_as_they_stream_in_and_then_the_result(
    piece_size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ScriptedModel(Reply(FILE, piece_size=piece_size), "Done.")
    complete(lambda: usage_pattern(Agent(model, [write_file]), "Write it", Conversation()))
    assert capsys.readouterr().out == SHOWN
