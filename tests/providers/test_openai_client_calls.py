"""OpenAI Responses: items that the client answers, and those that the provider runs."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from argstream import events as ev
from argstream import stream
from argstream.history import CallPart, ResultPart
from argstream.policy import Policy, Rule, Search
from tests import provider_streams as api
from tests.provider_streams import Payload, failures, item_added, item_done, of_type, results, turns


def item(type_: str, id_: str, **fields: Any) -> Payload:
    return {"type": type_, "id": id_, "call_id": "call_1", "status": "completed", **fields}


COMMANDS = {"commands": ["ls -la", "rm -rf /"], "timeout_ms": 1000, "max_output_length": None}
EXEC = {"type": "exec", "command": ["rm", "-rf", "/"], "env": {}, "working_directory": "/"}
CLICK: Payload = {"type": "click", "button": "left", "x": 3, "y": 4}
CHECK: Payload = {"id": "sc_1", "code": "malicious_instructions", "message": "Look at it."}
ACTIONS = [CLICK, {"type": "type", "text": "hello"}]

SHELL = item("shell_call", "sh_1", environment={"type": "local"}, action=COMMANDS)
LOCAL_SHELL = item("local_shell_call", "lsh_1", action=EXEC)
COMPUTER = item("computer_call", "cu_1", pending_safety_checks=[], actions=ACTIONS)
OLD_COMPUTER = {**COMPUTER, "pending_safety_checks": [CHECK], "action": CLICK, "actions": None}
SEARCH = item("tool_search_call", "tsc_1", execution="client", arguments={"goal": "send a mail"})
APPROVAL: Payload = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "server_label": "github",
    "name": "delete_repo",
    "arguments": '{"repo": "argstream"}',
}
CLIENT_CALLS = [
    (SHELL, "shell", "call_1", SHELL["action"]),
    (LOCAL_SHELL, "local_shell", "call_1", LOCAL_SHELL["action"]),
    (COMPUTER, "computer", "call_1", {"actions": COMPUTER["actions"]}),
    (OLD_COMPUTER, "computer", "call_1", {"action": CLICK, "pending_safety_checks": [CHECK]}),
    (SEARCH, "tool_search", "call_1", SEARCH["arguments"]),
    (APPROVAL, "mcp__github__delete_repo", "mcpr_1", {"repo": "argstream"}),
]
RESPONSE: Payload = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1.0,
    "model": "gpt",
    "output": [],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}
EMPTY: dict[str, Any] = {
    "shell_call": {"action": {"commands": []}},
    "local_shell_call": {"action": {"type": "exec", "command": [], "env": {}}},
    "computer_call": {"action": None, "actions": None, "pending_safety_checks": []},
    "tool_search_call": {"arguments": {}},
    "mcp_approval_request": {"arguments": ""},
}


def command(what: str, index: int = 0, **fields: Any) -> Payload:
    type_ = f"response.shell_call_command.{what}"
    return {"type": type_, "output_index": 0, "command_index": index, **fields}


def turn(*payloads: Payload) -> list[Payload]:
    """A turn in the form that the SDK's types require."""
    created = {"type": "response.created", "response": RESPONSE}
    ended = {"type": "response.completed", "response": {**RESPONSE, "status": "completed"}}
    whole = enumerate([created, *payloads, ended])
    return [{**payload, "sequence_number": number} for number, payload in whole]


def shell_turn(*commands: tuple[str, ...]) -> list[Payload]:
    """A turn with one shell call whose commands are streamed in these pieces."""
    events: list[Payload] = []
    for index, pieces in enumerate(commands):
        events.append(command("added", index, command=""))
        events += [command("delta", index, delta=piece) for piece in pieces]
        events.append(command("done", index, command="".join(pieces)))
    action = {**SHELL["action"], "commands": ["".join(pieces) for pieces in commands]}
    begun = {**SHELL, "status": "in_progress", "action": {"commands": []}}
    return turn(item_added(0, **begun), *events, item_done(0, **{**SHELL, "action": action}))


def as_dicts(payloads: list[Payload]) -> list[Any]:
    return payloads


def as_objects(payloads: list[Payload]) -> list[Any]:
    from openai.types.responses import ResponsesServerEvent
    from pydantic import TypeAdapter

    to_sdk: TypeAdapter[Any] = TypeAdapter(ResponsesServerEvent)
    return [to_sdk.validate_python(payload) for payload in payloads]


def as_bytes(payloads: list[Payload]) -> list[Any]:
    return [api.sse(payloads)]


Form = Callable[[list[Payload]], list[Any]]
FORMS = pytest.mark.parametrize("form", [as_dicts, as_objects, as_bytes])
DENY_RM = Policy(
    [Rule("deny", tool="shell", argument=["commands", "*"], when=Search(r"rm\s+-rf"))],
    default="allow",
)


def verdicts(events: list[ev.Event]) -> list[ev.Event]:
    return of_type(events, ev.ToolArgsCompleted, ev.ToolArgsInvalid)


@FORMS
@pytest.mark.parametrize(("item", "name", "call_id", "arguments"), CLIENT_CALLS)
def test_item_that_the_client_answers_is_a_call_with_arguments(
    item: Payload, name: str, call_id: str, arguments: Payload, form: Form
) -> None:
    begun = {**item, **EMPTY[item["type"]]}
    events = stream(form(turn(item_added(0, **begun), item_done(0, **item))))
    found = list(events)
    assert of_type(found, ev.ToolCallStarted) == [ev.ToolCallStarted(call_id, 0, name, "client")]
    assert verdicts(found) == [ev.ToolArgsCompleted(call_id, name, arguments)]
    assert [call.reinterpreted for call in events.calls] == [None]
    assert failures(found) == []
    (part,) = turns(found)[0].message.parts
    assert isinstance(part, CallPart)
    if form is as_dicts:  # it goes back unchanged
        assert part.item == item


def test_client_call_must_fit_the_schema_of_a_tool_with_its_name() -> None:
    commands = {"type": "array", "items": {"enum": ["ls"]}}
    schema = {"type": "object", "properties": {"commands": commands}}
    tool = {"type": "function", "name": "shell", "parameters": schema}
    for tools, verdict in (([], "complete"), ([tool], "rejected")):
        events = stream(turn(item_done(0, **SHELL)), tools=tools)
        list(events)
        assert [call.verdict for call in events.calls] == [verdict]


@FORMS
def test_shell_commands_grow_with_their_deltas(form: Form) -> None:
    events = stream(form(shell_turn(("ls ", "-la"), ("echo ", '"hi"'))))
    found = list(events)
    deltas = [(event.path[1], event.text) for event in of_type(found, ev.ArgumentDelta)]
    assert deltas == [(0, "ls "), (0, "-la"), (1, "echo "), (1, '"hi"')]
    arguments = {**SHELL["action"], "commands": ["ls -la", 'echo "hi"']}
    assert verdicts(found) == [ev.ToolArgsCompleted("call_1", "shell", arguments)]
    assert [call.reinterpreted for call in events.calls] == [None]


@FORMS
def test_policy_rejects_a_shell_call_at_the_end_of_the_denied_command(form: Form) -> None:
    payloads = shell_turn(("ls",), ("rm -r", "f", " /"), ("echo ", "done"))
    found = list(stream(form(payloads), policy=DENY_RM))
    (refused,) = of_type(found, ev.ToolArgsInvalid)
    assert (refused.verdict, refused.error.reason) == ("rejected", "denied")
    assert refused.raw == '{"commands":["ls","rm -rf /"'  # nothing after it is read
    assert verdicts(found) == [refused]
    assert [event.stop_reason for event in turns(found)] == ["rejected"]


@pytest.mark.parametrize(
    "events",
    [
        [],
        [command("added", command="ls -la")],
        [command("done", command="ls -la")],
        [command("added", command="ls"), command("delta", delta=" -la")],
        [command("delta", delta="l"), command("done", command="ls -la")],
        [command("done", command="ls -la"), command("delta", delta="again")],
    ],
)
def test_shell_command_is_whole_however_much_of_it_is_streamed(events: list[Payload]) -> None:
    item = {**SHELL, "action": {"commands": ["ls -la", "pwd"]}}
    call = api.only_call(turn(item_added(0, **SHELL), *events, item_done(0, **item)))
    assert (call.verdict, call.arguments) == ("complete", {"commands": ["ls -la", "pwd"]})


def test_shell_call_that_is_cut_is_truncated() -> None:
    begun = item_added(0, **{**SHELL, "action": {"commands": []}})
    deltas = [command("added", command=""), command("delta", delta="ls")]
    call = api.only_call([api.response_created(), begun, *deltas])
    assert (call.verdict, call.raw) == ("truncated", '{"commands":["ls')


TWICE = json.dumps(item_done(0, **SHELL)).replace('"commands"', '"commands": [], "commands"')


@pytest.mark.parametrize(
    "payload",
    [
        TWICE,
        *(
            item_done(0, **{**COMPUTER, "actions": None, name: "x"})
            for name in ("action", "actions")
        ),
    ],
)
def test_action_of_a_wrong_form_is_a_bad_payload(payload: Any) -> None:
    _, events = api.assemble([json.dumps(api.response_created()), payload])
    assert failures(events)[0].code == "bad_payload"


HOSTED_SHELL = {**SHELL, "environment": {"type": "container_reference", "container_id": "c"}}
PRINTED = {"stdout": "a\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
SHELL_OUTPUT = item("shell_call_output", "sho_1", output=[PRINTED])
SHELL_DELTA: Payload = {
    "type": "response.shell_call_output_content.delta",
    "item_id": "sh_1",
    "output_index": 0,
    "command_index": 0,
    "delta": {"stdout": "a\n"},
}
HOSTED_SEARCH = {**SEARCH, "call_id": None, "execution": "server"}
SEARCH_OUTPUT = {**HOSTED_SEARCH, "type": "tool_search_output", "id": "tso_1", "tools": []}
PROGRAM = item("program", "prog_1", code="await tools.add({a: 1})", fingerprint="fp")
PROGRAM_OUTPUT = item("program_output", "po_1", result="2")


@FORMS
@pytest.mark.parametrize(
    ("payloads", "kind", "name", "arguments", "result"),
    [
        (
            [HOSTED_SHELL, SHELL_DELTA, SHELL_OUTPUT],
            *("server", "shell", SHELL["action"], SHELL_OUTPUT["output"]),
        ),
        ([HOSTED_SEARCH, SEARCH_OUTPUT], "server", "tool_search", SEARCH["arguments"], []),
        ([PROGRAM, PROGRAM_OUTPUT], "code", "program", PROGRAM["code"], "2"),
    ],
)
def test_call_that_the_provider_runs_ends_with_its_result(  # noqa: PLR0917 - a table
    payloads: list[Payload], kind: Any, name: str, arguments: Any, result: Any, form: Form
) -> None:
    item, *deltas, output = payloads
    call_id = item["call_id"] or item["id"]
    sent = turn(item_done(0, **item), *deltas, item_done(1, **output))
    found = list(stream(form(sent), policy=Policy(default="deny")))
    assert of_type(found, ev.ToolCallStarted) == [ev.ToolCallStarted(call_id, 0, name, kind)]
    assert results(found) == [ev.ToolCallCompleted(call_id, name, arguments, result)]
    assert failures(found) == []
    parts = turns(found)[0].message.parts
    assert [type(part) for part in parts] == [CallPart, ResultPart]
    assert parts[1].item == output


def test_provider_cannot_answer_a_call_of_the_client() -> None:
    found = api.assemble(turn(item_done(0, **SHELL), item_done(1, **SHELL_OUTPUT)))[1]
    assert len(of_type(found, ev.ToolArgsCompleted)) == 1
    assert results(found) == []
    assert [type(part) for part in turns(found)[0].message.parts] == [CallPart]


def test_shell_call_without_an_environment_is_the_clients() -> None:
    assert api.only_call(turn(item_done(0, **{**SHELL, "environment": None}))).kind == "client"
