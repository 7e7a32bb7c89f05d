"""The toolkits in a real run: what a model asks for, what is done, and what it is told."""

import time
from typing import Any

from argstream.agent import Agent, Approve, Deny
from argstream.agent.toolkits import shell_tool
from argstream.clients import CallTool, Reply, ScriptedModel
from argstream.events import (
    RunPaused,
    RunStopped,
    ToolCallCompleted,
    ToolCallFailed,
    ToolOutputDelta,
)
from tests.agent.following import complete, events_of, one, only
from tests.agent.toolkits.projects import Project


def agent_of(project: Project, *replies: Any, **options: Any) -> Agent:
    tools = [*project.tools.values(), shell_tool(project.root)]
    return Agent(ScriptedModel(*replies), tools, **options)


def test_a_model_works_in_the_folder(project: Project) -> None:
    project.file("README.md", "# Greeter\n")
    code = "def greet(name):\n    print(f'hello, {name}')\n"
    edits = [{"old": "hello", "new": "good morning"}, {"old": "greet(", "new": "welcome("}]
    agent = agent_of(
        project,
        CallTool("list_files", {}),
        CallTool("write_file", {"path": "src/greet.py", "content": code}),
        CallTool("edit_file", {"path": "src/greet.py", "edits": edits}),
        Reply(
            CallTool("read_file", {"path": "src/greet.py"}),
            CallTool("search_files", {"query": "welcome"}),
        ),
        "Done.",
    )
    done = only(events_of(agent), ToolCallCompleted)
    assert sorted(str(event.result) for event in done) == sorted(
        [
            "README.md",
            "created src/greet.py with 2 lines",
            "made 2 edits in src/greet.py",
            "src/greet.py has 2 lines; this is all of it:\n"
            + code.replace("greet(", "welcome(").replace("hello", "good morning"),
            "1 line in 1 file\nsrc/greet.py:1: def welcome(name):",
        ]
    )


def test_a_model_that_tries_to_get_out_is_told_no_and_nothing_of_what_is_there(
    project: Project,
) -> None:
    project.link("way", project.outside)
    calls = [
        CallTool(name, {"path": path, **more})
        for path in ("../outside/secret.txt", str(project.secret), "way/secret.txt", "way/new")
        for name, more in (
            ("read_file", {}),
            ("list_files", {}),
            ("search_files", {"query": "sings"}),
            ("write_file", {"content": "x"}),
            ("edit_file", {"edits": [{"old": "sings", "new": "x"}]}),
        )
    ]
    events = events_of(agent_of(project, Reply(*calls), "I give up."))
    assert only(events, ToolCallCompleted) == []
    failures = only(events, ToolCallFailed)
    assert len(failures) == len(calls)
    assert all("of the folder" in failure.error for failure in failures)
    project.answers += [str(event) for event in events]


def test_an_edit_that_a_model_got_wrong_is_refused_while_it_is_written(project: Project) -> None:
    project.file("a.txt", "x")
    call = CallTool("edit_file", {"path": "a.txt", "edits": [{"old": "", "new": "y"}]})
    failure = one(events_of(agent_of(project, call, "Sorry.")), ToolCallFailed)
    assert "old" in failure.error
    assert (project.root / "a.txt").read_text(encoding="utf-8") == "x"


def test_a_command_runs_only_if_it_is_approved(project: Project) -> None:
    def asked(decision: Approve | Deny) -> list[Any]:
        agent = agent_of(
            project,
            CallTool("run_command", {"command": "echo here; touch made"}),
            "Done.",
            approver=lambda _: decision,
        )
        return list(agent.run("Go", stream=True))  # in no event loop

    events = asked(Deny("not today"))
    assert "not today" in one(events, ToolCallFailed).error
    assert not (project.root / "made").exists()
    events = asked(Approve())
    assert one(events, ToolOutputDelta).text == "here\n"
    assert one(events, ToolCallCompleted).result == "exit status 0\nhere\n"
    assert (project.root / "made").exists()


def test_without_somebody_to_ask_it_pauses(project: Project) -> None:
    agent = agent_of(project, CallTool("run_command", {"command": "touch made"}))
    assert len(one(events_of(agent), RunPaused).pending) == 1
    assert not (project.root / "made").exists()


def test_a_stop_ends_a_command_and_all_that_it_started(project: Project) -> None:
    work = "trap '' TERM; while :; do echo x | tee -a trace; sleep 0.02; done"
    agent = agent_of(
        project,
        CallTool("run_command", {"command": f"({work}) & {work}"}),
        "Done.",
        approver=lambda _: Approve(),
    )

    async def stopping() -> list[Any]:
        events = []
        async for event in (run := agent.run_stream("Go")):
            events.append(event)
            if isinstance(event, ToolOutputDelta):
                run.stop("enough")
        return events

    events = complete(stopping)
    size = (project.root / "trace").stat().st_size
    assert one(events, RunStopped).reason == "enough"
    time.sleep(0.3)
    assert (project.root / "trace").stat().st_size == size > 0
