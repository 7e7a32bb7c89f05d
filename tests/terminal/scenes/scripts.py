"""The scenes that are kept: real streams, and real runs of models that follow a script."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from unittest.mock import patch

from argstream import events as ev
from argstream import stream
from argstream.agent import Agent, Approval, Approve, Deny, ToolContext, tool
from argstream.events import ApprovalRequested, Event, ToolCallCompleted, ToolOutputDelta
from argstream.models import CallTool, Reply, Say, ScriptedModel, Think
from argstream.policy import Policy
from argstream.runs import Record
from argstream.terminal.tool_views import ToolViews
from argstream.testing import cut
from tests import provider_streams as api
from tests.agent.following import events_of
from tests.chance_runs import claude_code
from tests.runs.records import late_view

PIECE = 9


class Script(NamedTuple):
    name: str
    title: str
    events: Callable[[], Iterable[Event | ev.RunSnapshot]]
    moments: tuple[float, ...] = (0.5,)  # shares of the events, before the end
    columns: int = 80
    rows: int = 24
    looks: Callable[[], ToolViews] = ToolViews


APP = '''"""A greeter."""

import sys


def greet(name: str) -> str:
    """Say hello."""
    return f"Hello, {name}!"


def main() -> None:
    for name in sys.argv[1:]:
        print(greet(name))


if __name__ == "__main__":
    main()
'''


@tool
def write_file(path: str, content: str) -> str:
    """Write a file."""
    return f"{len(content.splitlines())} lines written to {path}"


def written(name: str, arguments: dict[str, Any] | str, **options: Any) -> Iterable[Event]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    payloads = api.anthropic_call(*cut(text, [PIECE]))
    payloads[1] = api.tool_use(0, name)
    return stream(payloads, **options)


def run(*replies: Any, prompt: str = "Write a greeter", **options: Any) -> list[Event]:
    """Return the events of a run whose model sends these replies, with each delta by itself."""
    model = ScriptedModel(*replies, piece_size=PIECE, delay=1e-6)
    with patch("argstream.agent._driver._FLUSH_INTERVAL", 0):
        return events_of(Agent(model, **{"tools": [write_file], **options}), prompt)


def app_looks() -> ToolViews:
    return ToolViews(read_file=lambda path: APP if path == "src/app.py" else None)


def file_write() -> list[Event]:
    return run(
        Reply(
            Say("I will write the greeter, with a `main` for the command line."),
            CallTool("write_file", {"path": "src/app.py", "content": APP}),
        ),
        "There it is: **src/app.py**.",
    )


def three_hunks() -> Iterable[Event]:
    hello, call = '    return f"Hello, {name}!"\n', "        print(greet(name))\n"
    part = '\n\ndef part(name: str) -> str:\n    return f"Goodbye, {name}!"\n'
    edits = [
        {"old": '"""A greeter."""\n', "new": '"""A greeter that says goodbye, too."""\n'},
        {"old": hello, "new": hello + part},
        {"old": call, "new": f"{call}        print(part(name))\n"},
    ]
    return written("edit_file", {"path": "src/app.py", "edits": edits})


def parallel() -> Iterable[Event]:
    texts = [
        json.dumps({"path": f"src/{name}.py", "content": f"# {name}\n" * count})
        for name, count in (("one", 9), ("two", 5), ("three", 2))
    ]
    payloads = [api.chunk(role="assistant", content="Three files.")]
    payloads += [
        api.tool_calls(
            api.entry("", index=place, id=f"call_{place}", name="write_file", type="function")
        )
        for place in (0, 1, 2)
    ]
    longest = max(map(len, texts))
    for start in range(0, longest, PIECE):
        payloads += [
            api.tool_calls(api.entry(text[start : start + PIECE], index=place))
            for place, text in enumerate(texts)
            if start < len(text)
        ]
    return stream([*payloads, api.chunk(finish="tool_calls")])


def two_questions() -> list[Event]:
    decided = asyncio.Event()

    async def decide(request: ApprovalRequested) -> Approval:
        if request.arguments["path"] == "src/b.py":
            decided.set()
            return Deny("we need no second file")
        await decided.wait()
        await asyncio.sleep(0.01)  # so that the other decision is received
        return Approve(always="conversation")

    return run(
        Reply(
            CallTool("write_file", {"path": "src/a.py", "content": "print('Hello')\n"}),
            CallTool("write_file", {"path": "src/b.py", "content": "print('Goodbye')\n"}),
        ),
        "I see.",
        policy=Policy(default="ask"),
        approver=decide,
    )


def two_tools() -> list[Event]:
    heard: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def hear(record: Record) -> None:
        """Continue one tool when the other has been heard, so that the order is always the same."""
        event = record.event
        if isinstance(event, ToolOutputDelta):
            heard[event.text].set()
        elif isinstance(event, ToolCallCompleted):
            heard[event.name].set()

    @tool
    async def run_tests(context: ToolContext, folder: str) -> str:
        context.output(f"collected 3 items in {folder}\n")
        await heard["src/app.py: ok\n"].wait()
        context.output("tests/test_one.py .")
        await heard["lint"].wait()
        context.output(".\ntests/test_two.py F\n")
        return "1 failed, 2 passed"

    @tool
    async def lint(context: ToolContext, folder: str) -> str:
        await heard["collected 3 items in tests\n"].wait()
        context.output(f"{folder}/app.py: ok\n")
        await heard["tests/test_one.py ."].wait()
        context.output("src/b.py: ok\n")
        return "src/app.py: ok\nsrc/b.py: ok\n"

    return run(
        Reply(CallTool("run_tests", {"folder": "tests"}), CallTool("lint", {"folder": "src"})),
        "One fails.",
        tools=[run_tests, lint],
        prompt="Check it",
        on_event=hear,
    )


def thinking() -> list[Event]:
    answer = (
        "# How to greet\n\n"
        "Call **greet** with a name; it gives a `str`. "
        + "A sentence that is one of many in a paragraph which does not end. "
        * 14
        + "\n\n```python\nfrom app import greet\n\nprint(greet('you'))  # Hello, you!\n```\n\n"
        "- short\n- and done"
    )
    return run(
        Reply(Think("They want an example.\nIt should be short."), Say(answer)),
        prompt="How do I greet?",
    )


def hostile() -> list[Event]:
    content = (
        "日本語のテキストは二倍の幅がある。" * 3 + "\n"
        "🎉 👩‍💻 🇩🇪 é e\u0301\n"
        "\x1b[2J\x1b]52;c;aGk=\x07 \x9b31m\n"
        "user\u202etxt.exe\u202c \u200bhidden \ue000\n"
        "שלום עולם\n"
        "\tafter a tab\r\n"
        "● write_file  forged\n"
    )
    return run(
        Reply(
            Say("\x1b[31mred\x1b[0m\n● run_command  rm -rf /\n> yes"),
            CallTool("write_file", {"path": "a\nb\u202e.txt", "content": content}),
        ),
        "好的",
        prompt="Try it \x1b[5m",
    )


def joined() -> list[Event | ev.RunSnapshot]:
    events = [event for event in file_write() if not event.type.startswith("argument_")]
    return late_view(events, len(events) * 2 // 3)


SCRIPTS = (
    Script("file_write", "A file is written", file_write, (0.1, 0.6)),
    Script("three_hunks", "An edit with three hunks", three_hunks, (0.4, 0.8), looks=app_looks),
    Script("parallel", "Three calls are written at the same time", parallel, (0.3, 0.8)),
    Script("two_questions", "Two calls are pending at once", two_questions, (0.8,)),
    Script("two_tools", "Two tools run at once", two_tools, (0.66, 0.72)),
    Script("thinking", "Thoughts, and a text with code", thinking, (0.1, 0.65, 0.8)),
    Script("hostile", "Wide characters and control sequences", hostile, (0.7,)),
    Script("sub_agents", "Two sub-agents at once", claude_code, (0.5, 0.7)),
    Script("narrow", "A file is written in a narrow terminal", file_write, (0.6,), 40, 12),
    Script("joined", "A viewer connects late", joined, (0.02, 0.5)),
)
