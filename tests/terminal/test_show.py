"""``show()`` and ``Agent(show=True)``: printing with one word."""

import io
from contextlib import redirect_stdout

import pytest

import argstream
from argstream import Agent, RunStarted, UsageError, show, stream
from argstream.models import CallTool, Reply, ScriptedModel
from tests import provider_streams as api
from tests.terminal.scenes.scripts import write_file

TURN = api.anthropic_call('{"path": "a.py", ', '"content": "one\\n"}')


def test_events_are_printed_and_yielded() -> None:
    output = io.StringIO()
    events = list(show(stream(TURN), output=output))
    assert events == list(stream(TURN))
    assert "     1 │ one\n" in output.getvalue()
    assert output.getvalue().splitlines()[-1].startswith("✓ Done in ")


@pytest.mark.anyio
async def test_async_events_are_printed_and_yielded() -> None:
    output = io.StringIO()
    run = Agent(ScriptedModel("Hello."), []).run_stream("Go")
    events = [event async for event in show(run, output=output)]
    assert isinstance(events[0], RunStarted)
    assert "│ Hello.\n" in output.getvalue()


def test_loop_that_is_left_early_leaves_a_complete_output() -> None:
    output = io.StringIO()
    for event in show(stream(TURN), output=output):
        if event.type == "argument_delta":
            break
    assert "Interrupted after" in output.getvalue()


def test_other_objects_are_refused() -> None:
    with pytest.raises(UsageError, match="needs an iterable of events, not int"):
        show(3)  # type: ignore[arg-type]
    assert argstream.show is show


def test_agent_prints_its_runs() -> None:
    call = CallTool("write_file", {"path": "a.py", "content": "one\n"})
    seen: list[str] = []
    with redirect_stdout(io.StringIO()) as output:
        agent = Agent(
            ScriptedModel(Reply(call), "Done."),
            [write_file],
            show=True,
            on_event=lambda record: seen.append(record.event.type),
        )
        agent.run("Go")
    shown = output.getvalue()
    assert shown.startswith("> Go\n● write_file  a.py\n     1 │ one\n")
    assert "✓ Done in " in shown
    assert seen[0] == "run_started"
