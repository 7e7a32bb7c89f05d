"""Source 003 in an agent: eager input streaming, ``max_tokens`` in a parameter, INVALID_JSON.

"You generally have to write specific support to handle when max_tokens is reached": an agent has
it. All of this is asked of a provider over HTTP, which refuses a request that is not well-formed.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from argstream import events as ev
from argstream.agent import Agent, tool
from argstream.models import ModelSettings
from argstream.testing import CallTool, Reply
from tests.agent.following import events_of, one, only, served
from tests.agent.ordering import check_order
from tests.support.provider_rules import strict_provider

POEM = {"filename": "poem.txt", "lines_of_text": ['Roses are "red"', "Violets \\ are blue"]}
WRITTEN = json.dumps(POEM)
CUT = WRITTEN[: WRITTEN.index("Violets") + 4]
PROMPT = "Can you write a long poem and make a file called poem.txt?"


class Folder:
    """Where ``make_file`` writes to."""

    def __init__(self) -> None:
        self.files: dict[str, list[str]] = {}

    @tool(eager_input_streaming=True)
    def make_file(self, filename: str, lines_of_text: list[str]) -> str:
        """Write text to a file."""
        self.files[filename] = lines_of_text
        return f"{len(lines_of_text)} lines"


@pytest.fixture
def folder() -> Folder:
    return Folder()


class Asked:
    """A provider that was asked, and what came of it."""

    def __init__(self, api: str, tools: list[object], *replies: Reply) -> None:
        with strict_provider(list(replies)) as provider:
            model = served(f"{api}:claude-opus-4-7", provider)
            agent = Agent(model, tools, settings=ModelSettings(max_tokens=65536))
            self.events: list[ev.Event] = events_of(agent, PROMPT)
            provider.check()
            self.bodies: list[Any] = [request.body for request in provider.requests]
        check_order(self.events)

    def blocks(self, type_: str) -> Iterator[Any]:
        """The blocks of this type in the last request to Anthropic."""
        for message in self.bodies[-1]["messages"]:
            if isinstance(message["content"], list):
                yield from (block for block in message["content"] if block["type"] == type_)


APIS = ["anthropic", "openai", "openai-responses"]


@pytest.mark.parametrize("api", APIS)
def test_the_parameter_is_seen_as_it_arrives(api: str, folder: Folder) -> None:
    """Each line of the poem is there before the call is, and the file when the turn has ended."""
    asked = Asked(api, [folder.make_file], Reply(CallTool("make_file", WRITTEN)), Reply("Done."))
    kinds = [type(event) for event in asked.events]
    lines = [
        (place, event.value)
        for place, event in enumerate(asked.events)
        if isinstance(event, ev.ArgumentCompleted) and len(event.path) == 2
    ]
    assert [value for _, value in lines] == POEM["lines_of_text"]
    assert lines[0][0] < lines[1][0] < kinds.index(ev.ToolArgsCompleted)
    assert kinds.index(ev.TurnCompleted) < kinds.index(ev.ToolExecutionStarted)
    assert folder.files == {"poem.txt": POEM["lines_of_text"]}


# The warning: max_tokens


@pytest.mark.parametrize("api", APIS)
def test_max_tokens_midway_runs_nothing_and_the_model_may_retry(api: str, folder: Folder) -> None:
    cut = Reply(CallTool("make_file", CUT), stop="length")
    shorter = Reply(CallTool("make_file", {"filename": "poem.txt", "lines_of_text": ["Roses"]}))
    asked = Asked(api, [folder.make_file], cut, shorter, Reply("Done."))
    assert folder.files == {"poem.txt": ["Roses"]}
    invalid = one(asked.events, ev.ToolArgsInvalid)
    assert (invalid.verdict, invalid.raw) == ("truncated", CUT)
    assert len(only(asked.events, ev.ToolExecutionStarted)) == 1
    assert "truncated" in one(asked.events, ev.ToolCallFailed).error
    assert "truncated" in json.dumps(asked.bodies[1])
    assert len(asked.bodies) == 3


def test_max_tokens_in_the_middle_of_a_text_ends_the_run(folder: Folder) -> None:
    asked = Asked("anthropic", [folder.make_file], Reply("Roses are", stop="length"))
    ended = one(asked.events, ev.RunCompleted)
    assert (ended.result, ended.stop_reason) == ("Roses are", "max_tokens")


# Handling invalid JSON in tool responses


@pytest.mark.parametrize(
    ("text", "stop"),
    [
        (CUT, "length"),
        ('{"filename": "poem.txt" "lines_of_text": []}', None),
        ('{"filename": "a\\d", "lines_of_text": ["\n"]}', None),
    ],
)
def test_invalid_json_goes_back_with_an_error(text: str, stop: Any, folder: Folder) -> None:
    invalid = Reply(CallTool("make_file", text), stop=stop)
    asked = Asked("anthropic", [folder.make_file], invalid, Reply("I see."))
    (call,) = asked.blocks("tool_use")
    assert call["input"] == {"INVALID_JSON": text}, "quotes and all, properly escaped"
    (result,) = asked.blocks("tool_result")
    assert (result["tool_use_id"], result["is_error"]) == (call["id"], True)
    assert "not run" in json.dumps(result["content"])
    assert folder.files == {}
