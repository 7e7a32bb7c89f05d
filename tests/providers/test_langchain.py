"""LangChain: its own message objects, from scripted models, and every form they come in."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.load import dumps
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolCallChunk,
    ToolMessage,
    message_chunk_to_message,
    message_to_dict,
)
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from argstream import events as ev
from argstream import stream
from argstream.history import OpaquePart, TextPart, ThinkingPart
from tests import provider_streams as providers
from tests.provider_streams import failures, of_type, results, texts, turns, types
from tests.providers.tables import Tables

READER = Tables("langchain")
assemble, verdicts = READER.assemble, READER.verdicts


def piece(
    args: str | None, name: str | None = None, id_: str | None = None, index: Any = 0
) -> ToolCallChunk:
    return ToolCallChunk(name=name, args=args, id=id_, index=index, type="tool_call_chunk")


def chunk(*pieces: ToolCallChunk, content: Any = "", **fields: Any) -> AIMessageChunk:
    fields = {"id": "lc_run--1", **fields}
    return AIMessageChunk(content=content, tool_call_chunks=list(pieces), **fields)


def end(reason: str = "tool_calls", **fields: Any) -> AIMessageChunk:
    return chunk(response_metadata={"finish_reason": reason}, **fields)


LAST = chunk(chunk_position="last")
WRITTEN = [chunk(piece('{"path": "/t', "write", "call_1")), chunk(piece('mp"}'))]


class Scripted(BaseChatModel):
    """A chat model that streams these chunks."""

    chunks: list[AIMessageChunk]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError

    def _stream(self, *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        for one in self.chunks:
            yield ChatGenerationChunk(message=one.model_copy())


def scripted(*chunks: AIMessageChunk) -> Scripted:
    """A model that leaves the IDs of messages to LangChain, as most do."""
    return Scripted(chunks=[one.model_copy(update={"id": None}) for one in chunks])


MODEL_EVENTS = ["text_delta", *providers.ONE_ARGUMENT_IN_TWO_PIECES, "turn_completed"]


async def test_stream_and_events_of_a_model_are_sources() -> None:
    model = scripted(chunk(content="Well."), *WRITTEN, end())
    events = stream(model.stream("hi"), protocol="langchain")
    assert types(events) == MODEL_EVENTS
    assert [(call.id, call.arguments) for call in events.calls] == [("call_1", {"path": "/tmp"})]
    source = model.astream_events("hi", version="v2")
    found = [event.type async for event in stream(source, protocol="langchain")]
    assert found == MODEL_EVENTS


def test_result_equals_the_sum_that_langchain_computes() -> None:
    """Its own sum of the chunks is right if IDs and indexes are."""
    usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    model = scripted(
        *(chunk(content="One, "), chunk(content="two.")),
        chunk(piece('{"a":', "f", "c1", 0), piece('{"b":', "g", "c2", 1)),
        *(chunk(piece("[1]}", index=0)), chunk(piece('"x"}', index=1))),
        end(usage_metadata=usage),
    )
    chunks = list(model.stream("hi"))
    whole = sum(chunks[1:], chunks[0])
    calls, events = assemble(chunks)
    found = [(call.id, call.name, call.arguments) for call in calls]
    assert found == [(call["id"], call["name"], call["args"]) for call in whole.tool_calls]
    assert "".join(texts(events)) == whole.text
    assert turns(events)[0].usage == ev.Usage(3, 4)


def one_call(text: str, *ends: Any) -> list[Any]:
    return [chunk(piece(text, "f", "c1")), *ends]


def metadata(**fields: Any) -> AIMessageChunk:
    return chunk(response_metadata=fields)


ANSWER = [chunk(content="Done.", id="lc_run--2"), end("stop", id="lc_run--2")]
RESULT = ToolMessage("ok", tool_call_id="c1")
FAILED = ToolMessage("boom", tool_call_id="c1", status="error")
TWO_CALLS = {
    "by index": [
        chunk(piece('{"a":', "f", "c1", 0)),
        chunk(piece('{"b":', "g", "c2", 1)),
        chunk(piece("1}", index=0), piece("2}", index=1)),
    ],
    # ChatOllama sends whole calls without an index in one chunk.
    "by ID": [chunk(piece('{"a": 1}', "f", "c1", None), piece('{"b": 2}', "g", "c2", None))],
    "by ID and name at the same index": [
        chunk(piece('{"a": 1}', "f", "c1", 0)),
        chunk(piece('{"b": 2}', "g", "c2", 0)),
    ],
}
ENDS: dict[str, list[Any]] = {
    "complete": [
        *(end(), end("STOP"), metadata(stop_reason="tool_use", stop_sequence=None)),
        *(metadata(stopReason="end_turn"), metadata(done=True, done_reason="stop")),
        metadata(object="response", status="completed"),
    ],
    "truncated": [
        *(end("length"), end("MALFORMED_FUNCTION_CALL"), metadata(stop_reason="max_tokens")),
        *(metadata(stopReason="guardrail_intervened"), metadata(status="incomplete")),
        metadata(status="incomplete", incomplete_details={"reason": "content_filter"}),
    ],
}
SERVER_USE = {"type": "server_tool_use", "id": "s1", "name": "f", "input": {}, "index": 0}
SERVER_TEXT = {"type": "input_json_delta", "partial_json": '{"a":1}', "index": 0}
SUM = chunk(content=[SERVER_USE]) + chunk(content=[SERVER_TEXT]) + end("stop")
UNKNOWN_ENDS = {"no reason": LAST, "a new reason": end("brand_new")}

test_outcomes = READER.test_outcomes(
    {
        **{name: ([*sent, end()], [{"a": 1}, {"b": 2}]) for name, sent in TWO_CALLS.items()},
        **{
            f"{name}, cut": ([*sent, end("length")], [{"a": 1}, "truncated"])
            for name, sent in TWO_CALLS.items()
        },
        **{
            f"{'no ' * (not text)}text and {last.response_metadata}": (
                one_call(text, last, LAST),
                [(arguments if verdict == "complete" else "truncated")],
            )
            for verdict, ends in ENDS.items()
            for last in ends
            for text, arguments in (('{"a":1}', {"a": 1}), ("", {}))
        },
        **{f"text and {name}": (one_call("{}", last), [{}]) for name, last in UNKNOWN_ENDS.items()},
        **{
            f"no text and {name}": (one_call("", last), ["truncated"])
            for name, last in UNKNOWN_ENDS.items()
        },
        # Not every model sends a reason, but tools run only on whole messages.
        "text and a result": (one_call('{"a":1}', RESULT, *ANSWER), [{"a": 1}]),
        "no text and a result": (one_call("", RESULT, *ANSWER), [{}]),
        "text and a failed result": (one_call('{"a":1}', FAILED), ["truncated"]),
        "no text and a failed result": (one_call("", FAILED), ["truncated"]),
        "sum of chunks": ([message_chunk_to_message(SUM)], [{"a": 1}]),
        "no name and a lost payload": (
            [chunk(piece("{}", None, "c1")), b"?", chunk(piece(None, "f")), end()],
            ["truncated"],
        ),
    }
)


def test_parsed_prefixes_of_langchain_are_not_used() -> None:
    first = chunk(piece('{"path": "/t', "write", "call_1"))
    assert first.tool_calls[0]["args"] == {"path": "/t"}
    (call,), events = assemble([first])
    assert (call.verdict, call.raw) == ("truncated", '{"path": "/t')
    assert [event.delta for event in of_type(events, ev.ToolArgsDelta)] == ['{"path": "/t']
    assert failures(events)[0].code == "truncated"
    cut = chunk(piece('{"path": "/etc", "recursive": tr', "write", "call_1"))
    message = message_chunk_to_message(cut)
    assert isinstance(message, AIMessage)
    assert message.tool_calls[0]["args"] == {"path": "/etc"}
    assert verdicts([message]) == ["truncated"]
    dumped = chunk(piece('{"a": tr', "f", "c1")).model_dump()
    assert dumped["tool_calls"][0]["args"] == {}
    ended = {**dumped, "type": "ai", "response_metadata": {"finish_reason": "stop"}}
    (call,), _ = assemble([ended])
    assert (call.verdict, call.raw) == ("truncated", '{"a": tr')


def test_parts_of_the_usage_are_added_also_after_the_stop_reason() -> None:
    def usage(read: int, written: int, **details: Any) -> AIMessageChunk:
        counts = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
        return chunk(usage_metadata={**counts, **details})

    details = {
        "input_token_details": {"cache_read": 2, "cache_creation": 1},
        "output_token_details": {"reasoning": 3},
    }
    _, events = assemble([usage(10, 0), *WRITTEN, end(), usage(0, 5, **details), LAST])
    assert [turn.usage for turn in turns(events)] == [ev.Usage(10, 5, 2, 1, 3)]


def test_blocks_of_anthropic_do_not_repeat_a_call() -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}, "index": 1}
    part = {"type": "input_json_delta", "partial_json": '{"a":1}', "index": 1}
    payloads = [
        chunk(content=[{"type": "text", "text": "Well.", "index": 0}]),
        chunk(piece("", "f", "toolu_1", 1), content=[use]),
        chunk(piece('{"a":1}', index=1), content=[part]),
        chunk(response_metadata={"stop_reason": "tool_use"}, content=[], chunk_position="last"),
    ]
    calls, events = assemble(payloads)
    assert [(call.id, call.arguments) for call in calls] == [("toolu_1", {"a": 1})]
    assert texts(events) == ["Well."]
    assert part_names(events) == ["TextPart", "CallPart"]


def part_names(events: Any) -> list[str]:
    (turn,) = turns(events)
    return [type(part).__name__ for part in turn.message.parts]


def block(type_: str, index: int = 0, **fields: Any) -> dict[str, Any]:
    return {"type": type_, "index": index, **fields}


def reasoning(**fields: Any) -> dict[str, Any]:
    return block("reasoning", **fields)


def nested(**fields: Any) -> dict[str, Any]:
    return block("reasoning_content", reasoning_content=fields)


def summary(text: str) -> list[Any]:
    return [{"index": 0, "text": text}]


@pytest.mark.parametrize(
    ("blocks", "kept"),
    [
        (
            [*(block("thinking", thinking=one) for one in "Hm"), block("thinking", signature="s")],
            block("thinking", thinking="Hm", signature="s"),
        ),
        (
            [reasoning(reasoning="H"), reasoning(reasoning="m", extras={"signature": "s"})],
            reasoning(reasoning="Hm", extras={"signature": "s"}),
        ),
        (
            [
                *(reasoning(id="rs", summary=[]), reasoning(summary=summary("H"))),
                *(reasoning(summary=summary("m")), reasoning(summary=[], encrypted_content="x")),
            ],
            reasoning(id="rs", summary=summary("Hm"), encrypted_content="x"),
        ),
        (
            [nested(text="H"), nested(text="m"), nested(signature="s")],
            nested(text="Hm", signature="s"),
        ),
    ],
)
def test_thoughts_are_shown_and_kept_in_the_form_of_their_provider(
    blocks: list[dict[str, Any]], kept: dict[str, Any]
) -> None:
    answer = {"type": "text", "text": "Yes.", "index": 1}
    payloads = [chunk(content=[block]) for block in [*blocks, answer]]
    _, events = assemble([*payloads, end("stop")])
    assert [event.text for event in of_type(events, ev.ThinkingDelta)] == ["H", "m"]
    parts = (ThinkingPart(text="Hm", item=kept), TextPart(text="Yes."))
    assert turns(events)[0].message.parts == parts


def test_thoughts_may_be_beside_the_content() -> None:
    thoughts = [chunk(additional_kwargs={"reasoning_content": text}) for text in "Hm"]
    _, events = assemble([*thoughts, chunk(content="Yes."), end("stop")])
    thinking = ["thinking_started", "thinking_delta", "thinking_delta", "thinking_completed"]
    assert types(events) == [*thinking, "text_delta", "turn_completed"]


def test_unknown_block_is_kept() -> None:
    search = {"type": "web_search_call", "id": "ws", "status": "completed", "index": 0}
    odd = {"type": "non_standard", "value": {"type": "container_upload", "file_id": "x"}}
    blocks = [search, odd, "Found ", {"type": "refusal", "refusal": "nothing."}]
    _, events = assemble([chunk(content=blocks), end("stop")])
    assert turns(events)[0].message.parts[:2] == (OpaquePart(item=search), OpaquePart(item=odd))
    assert "".join(texts(events)) == "Found nothing."


USED: dict[str, Any] = {"id": "s1", "name": "f"}
TEXTS = [block("input_json_delta", 1, partial_json=text) for text in ('{"a"', ":1}")]
ARGS = block("server_tool_call_chunk", 1, args='{"a":1}')


@pytest.mark.parametrize(
    ("blocks", "kind"),
    [
        (
            [
                *(block("server_tool_use", 1, **USED, input={}), *TEXTS),
                block("web_search_tool_result", 2, tool_use_id="s1", content="r"),
            ],
            "server",
        ),
        (
            [
                block("mcp_tool_use", 1, **USED, input={"a": 1}),
                block("mcp_tool_result", 2, tool_use_id="s1", content="r"),
            ],
            "mcp",
        ),
        (
            [
                *(block("server_tool_call_chunk", 1, **USED), ARGS),
                block("server_tool_result", 2, tool_call_id="s1", output="r"),
            ],
            "server",
        ),
        ([{"type": "mcp_call", **USED, "arguments": '{"a":1}', "output": "r"}], "mcp"),
    ],
)
def test_call_that_the_provider_runs_is_content(blocks: list[dict[str, Any]], kind: str) -> None:
    calls, events = assemble([*(chunk(content=[block]) for block in blocks), end("stop")])
    assert [(call.kind, call.verdict) for call in calls] == [(kind, "complete")]
    assert results(events) == [ev.ToolCallCompleted("s1", "f", {"a": 1}, "r")]
    mcp = block("mcp_tool_result", 1, tool_use_id="s1", content="r", is_error=True)
    server = block("server_tool_result", 1, tool_call_id="s1", output="r", status="error")
    for result in (mcp, server):
        _, events = assemble([chunk(content=[SERVER_USE]), chunk(content=[result]), end("stop")])
        assert results(events) == [ev.ToolCallFailed("s1", "f", "r")]


OPERATION = {"type": "create_file", "path": "a", "diff": "+b"}
PATCH = {"type": "apply_patch_call", "id": "apc", "call_id": "c1", "operation": OPERATION}


@pytest.mark.parametrize(
    "said",
    [
        lambda item: chunk(content=[item]),
        lambda item: chunk(content=[{"type": "non_standard", "value": item, "index": "lc_ns_0"}]),
        lambda item: chunk(additional_kwargs={"tool_outputs": [item]}),
    ],
)
def test_call_of_openai_is_read_in_each_output_version(said: Any) -> None:
    (call,), _ = assemble([said(PATCH), end("stop")])
    assert (call.id, call.kind, call.arguments) == ("c1", "patch", OPERATION)
    action = {"commands": ["rm -rf /"]}
    shell = {"type": "shell_call", "id": "s", "call_id": "c1", "action": action}
    (call,), _ = assemble([said({**shell, "status": "completed"}), end("stop")])
    assert (call.id, call.name, call.kind, call.arguments) == ("c1", "shell", "client", action)


def test_calls_that_openai_ran_end_with_their_results() -> None:
    outputs: list[dict[str, Any]] = [
        {"type": "web_search_call", "id": "ws", "status": "completed", "index": 0},
        {"type": "mcp_call", "id": "s1", "name": "f", "arguments": '{"a":1}', "output": "r"},
        {"type": "code_interpreter_call", "id": "s2", "code": "1+1", "outputs": ["2"]},
    ]
    said = [chunk(additional_kwargs={"tool_outputs": [output]}) for output in outputs]
    calls, events = assemble([*said, end("completed")])
    assert [(call.kind, call.arguments) for call in calls] == [("mcp", {"a": 1}), ("code", "1+1")]
    assert [event.result for event in results(events)] == ["r", ["2"]]
    assert turns(events)[0].message.parts[0] == OpaquePart(item=outputs[0])
    program = block("program", id="p", call_id="c1", code="1+1", fingerprint="f")
    output = block("program_output", 1, id="po", call_id="c1", result="2")
    _, events = assemble([chunk(content=[program, output]), end("completed")])
    assert results(events) == [ev.ToolCallCompleted("c1", "program", "1+1", "2")]


def test_each_message_is_a_turn_and_a_tool_message_completes_its_call() -> None:
    payloads = [HumanMessage("hi"), *WRITTEN, end(), LAST, ToolMessage("ok", tool_call_id="call_1")]
    _, events = assemble([*payloads, *ANSWER])
    assert types(events)[-4:-2] == ["turn_completed", "tool_call_completed"]
    assert types(events)[-2:] == ["text_delta", "turn_completed"]
    assert results(events) == [ev.ToolCallCompleted("call_1", "write", {"path": "/tmp"}, "ok")]
    assert len(turns(assemble(one_call("", RESULT, *ANSWER))[1])) == 2
    assert assemble(one_call("", FAILED))[1][-1] == ev.ToolCallFailed("c1", "f", "boom")


def test_message_keeps_its_turn_if_its_id_changes() -> None:
    """LangChain replaces the ID of OpenAI by the ID of its run."""
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    first = [chunk(id="resp_1"), *WRITTEN, end(usage_metadata=usage), LAST]
    _, events = assemble([*first, chunk(id="resp_2"), *ANSWER])
    assert [turn.message.id for turn in turns(events)] == ["resp_1", "resp_2"]
    assert failures(events) == []
    _, events = assemble([chunk(id="resp_1"), chunk(id="resp_2"), *ANSWER])
    assert types(events) == ["text_delta", "turn_completed"]  # the first has only an ID


def test_message_with_its_own_id_may_end_under_the_id_of_the_run() -> None:
    model = Scripted(chunks=[chunk(piece("{}", "f", "c1"), id="mine"), end(id="mine")])
    chunks = list(model.stream("hi"))
    assert [one.id == "mine" for one in chunks] == [True, True, False]
    calls, events = assemble(chunks)
    assert [call.verdict for call in calls] == ["complete"]
    assert types(events)[-1] == "turn_completed"
    assert len(turns(events)) == 1


def test_parts_of_a_message_may_have_their_own_ids_or_none() -> None:
    """OpenAI with output_version="v0" sends them."""
    payloads = [
        *(chunk(), chunk(id="msg_1"), chunk(content="One, "), chunk(id="msg_1")),
        *(chunk(id="msg_2"), chunk(content="two."), chunk(id="msg_2")),
        *(*WRITTEN, end("completed"), LAST),
    ]
    _, events = assemble(payloads)
    assert failures(events) == []
    assert part_names(events) == ["TextPart", "CallPart"]
    # Messages without IDs are separated by their ends.
    bare = [[chunk(piece("{}", "f", id_), id=None), end(id=None)] for id_ in ("c1", "c2")]
    calls, events = assemble([*bare[0], *bare[1]])
    assert [call.verdict for call in calls] == ["complete", "complete"]
    assert len(turns(events)) == 2


def test_run_is_not_merged_into_a_message_that_continues_under_its_own_id() -> None:
    payloads = [
        chunk(piece('{"path":', "rm", "c1"), id="own"),
        chunk(piece('{"path":', "ls", "c2"), id="lc_run--2"),
        *(chunk(piece('"/a"}'), id="own"), end(id="own")),
        *(chunk(piece('"/b"}'), id="lc_run--2"), end(id="lc_run--2")),
    ]
    found = {call.name: call.arguments for call in assemble(payloads)[0]}
    assert found == {"rm": {"path": "/a"}, "ls": {"path": "/b"}}


def whole(*calls: tuple[str, dict[str, Any]], reason: str = "", **fields: Any) -> AIMessage:
    metadata = {"finish_reason": reason} if reason else {}
    given = [{"name": "f", "args": args, "id": id_} for id_, args in calls]
    return AIMessage(tool_calls=given, response_metadata=metadata, **{"content": "", **fields})


def test_message_that_was_not_streamed_has_whole_calls() -> None:
    invalid = [{"name": "g", "args": '{"b', "id": "c3", "error": "no"}]
    message = whole(("c1", {"a": [1]}), ("c2", {}), reason="tool_calls", invalid_tool_calls=invalid)
    calls, events = assemble([message])
    found = {call.id: call.verdict for call in calls}
    assert found == {"c1": "complete", "c2": "complete", "c3": "truncated"}
    assert [call.arguments for call in calls if call.name == "f"] == [{"a": [1]}, {}]
    assert types(events)[-1] == "turn_completed"


@pytest.mark.parametrize("reason", ["", "brand_new", "length", "lengthlength"])
def test_last_call_of_a_whole_message_may_be_cut(reason: str) -> None:
    calls, events = assemble([whole(("c1", {"a": 1}), ("c2", {"a": "tr"}), reason=reason)])
    assert [call.verdict for call in calls] == ["complete", "truncated"]
    assert failures(events) == []
    assert turns(events)[0].stop_reason == (reason.replace("lengthlength", "length") or None)


def test_unproven_call_is_truncated_when_its_writer_continues() -> None:
    _, events = assemble([whole(("c1", {"a": 1}), id="m1"), *ANSWER])
    assert types(events)[-4:-2] == ["tool_args_invalid", "turn_completed"]
    assert types(events)[-2:] == ["text_delta", "turn_completed"]
    # A message of another node proves nothing.
    first = (whole(("c1", {"a": 1}), id="m1"), node("f"))
    others = [(message, node("g")) for message in ANSWER]
    assert verdicts([first, *others, (RESULT, node("tools"))]) == ["complete"]


@pytest.mark.parametrize(("status", "verdict"), [("success", "complete"), ("error", "truncated")])
def test_result_proves_the_last_call_of_a_whole_message(status: Any, verdict: str) -> None:
    message = whole(("c1", {"a": 1}), ("c2", {"a": 2}))
    last = ToolMessage("?", tool_call_id="c2", status=status)
    assert verdicts([message, FAILED]) == ["complete", "truncated"]
    calls, events = assemble([message, FAILED, last])
    assert [call.verdict for call in calls] == ["complete", verdict]
    assert len(turns(events)) == 1
    assert [event.call_id for event in results(events)] == ["c1", "c2"]


@pytest.mark.parametrize(("reason", "verdict"), [("MAX_TOKENS", "truncated"), ("STOP", "complete")])
def test_reason_that_langchain_repeats_is_one_reason(reason: str, verdict: str) -> None:
    said = chunk(piece("{}", "f", "c1")) + end(reason) + end(reason) + end(reason)
    assert said.response_metadata["finish_reason"] == reason * 3
    for message in (said, message_chunk_to_message(said)):
        (call,), events = assemble([message])
        assert (call.verdict, turns(events)[0].stop_reason) == (verdict, reason)


def test_copy_of_a_streamed_message_is_ignored() -> None:
    streamed = [chunk(piece('{"a": 1}', "f", "c1"), id="lc_run--1"), end(id="lc_run--1")]
    again = AIMessage("", id="other", tool_calls=[{"name": "f", "args": {"a": 1}, "id": "c1"}])
    calls, events = assemble([*streamed, again])
    assert [call.id for call in calls] == ["c1"]
    assert len(turns(events)) == 1
    calls, _ = assemble([*streamed, RESULT, again])
    assert [call.id for call in calls] == ["c1", "c1"]  # IDs may repeat across turns


PAYLOADS: list[BaseMessage] = [*WRITTEN, end(), LAST, ToolMessage("ok", tool_call_id="call_1")]


class StreamPart(NamedTuple):
    """An item of the client of LangGraph's server."""

    event: str
    data: Any
    id: str | None = None


def node(name: str) -> dict[str, Any]:
    return {"langgraph_node": name, "langgraph_checkpoint_ns": f"{name}:1"}


@pytest.mark.parametrize(
    "form",
    [
        lambda message: message.model_dump(),
        lambda message: json.dumps(message.model_dump()),
        lambda message: json.dumps(message.model_dump()).encode(),
        dumps,
        lambda message: json.loads(dumps(message)),
        message_to_dict,
        lambda message: (message, node("agent")),
        lambda message: json.dumps([message.model_dump(), node("agent")]),
        lambda message: ("messages", (message, node("agent"))),
        lambda message: (("sub:1",), "messages", (message, node("agent"))),
        lambda message: {"type": "messages", "ns": (), "data": (message, node("agent"))},
        lambda message: ((), (message, node("agent"))),
        lambda message: (("sub:1", "sub:2"), (message, node("agent"))),
        lambda message: StreamPart("messages", [message.model_dump(), node("agent")]),
        lambda message: StreamPart("messages|sub:1", [message.model_dump(), node("agent")], "7"),
    ],
)
def test_every_form_of_a_message_gives_the_same_events(form: Any) -> None:
    _, expected = assemble(list(PAYLOADS))
    assert assemble([form(message) for message in PAYLOADS])[1] == expected
    assert types(expected)[-1] == "tool_call_completed"


def test_items_without_a_message_are_ignored() -> None:
    odd: list[object] = [
        *(("updates", {"agent": {"messages": []}}), ("values", {})),
        StreamPart("metadata", {"run_id": "1"}),
        StreamPart("messages/partial", [WRITTEN[0].model_dump()]),
        *(((), {"agent": {"messages": []}}), [1, 2, 3], {"a": 1}, b"[]"),
        {"event": "on_chain_start", "data": {"input": "hi"}, "run_id": "r"},
        {"event": "on_tool_end", "data": {"output": "3"}, "run_id": "r"},
    ]
    payloads = [*WRITTEN, end()]
    assert assemble([payloads[0], *odd, *payloads[1:]])[1] == assemble(payloads)[1]


def event(name: str, run: str = "run", **data: Any) -> dict[str, Any]:
    return {"event": name, "run_id": run, "data": data, "metadata": {}}


def test_end_event_of_a_run_repeats_nothing() -> None:
    streamed = [event("on_chat_model_stream", chunk=said) for said in WRITTEN]
    for output in (WRITTEN[0] + WRITTEN[1], AIMessage("", id="lc_run--1")):
        calls, events = assemble([*streamed, event("on_chat_model_end", output=output)])
        assert [call.verdict for call in calls] == ["complete"]
        assert types(events)[-1] == "turn_completed"
    # It has the message of a run that was not streamed.
    ended = event("on_chat_model_end", output=chunk(piece('{"a":1}', "f", "c1")))
    _, events = assemble([ended, event("on_tool_end", "t", output=RESULT)])
    assert types(events)[-3] == "tool_args_completed"
    assert types(events)[-2:] == ["turn_completed", "tool_call_completed"]


def zipped(first: list[Any], second: list[Any]) -> list[Any]:
    return [one for pair in zip(first, second, strict=True) for one in pair]


@pytest.mark.parametrize("nodes", [("f", "g"), ("agent", "agent")])
@pytest.mark.parametrize("order", [zipped, lambda first, second: [*first[:2], *second, *first[2:]]])
def test_concurrent_messages_keep_their_turns(order: Any, nodes: tuple[str, str]) -> None:
    def written(name: str, run: str, writer: str) -> list[Any]:
        id_ = "lc_run--" + run
        messages = [
            chunk(id="resp_" + run),
            chunk(piece('{"a":', name, "c" + run), id=id_),
            chunk(piece(f"{run}}}"), id=id_),
            *(end("completed", id=id_), chunk(id=id_, chunk_position="last")),
        ]
        return [(message, node(writer)) for message in messages]

    first, second = written("f", "1", nodes[0]), written("g", "2", nodes[1])
    calls, events = assemble(order(first, second))
    assert [(call.id, call.arguments) for call in calls] == [("c1", {"a": 1}), ("c2", {"a": 2})]
    assert failures(events) == []
    found = [(turn.message.id, turn.message.parts[0].arguments) for turn in turns(events)]
    assert sorted(found, key=str) == [("resp_1", {"a": 1}), ("resp_2", {"a": 2})]
    both = of_type(events, ev.ToolCallStarted, ev.TurnCompleted)[:2]
    assert types(both) == ["tool_call_started"] * 2
    assert verdicts([*first[:3], *second[:3]]) == ["truncated", "truncated"]
    assert verdicts([*first[:3], *second[:3], b"?", *first[3:]]) == ["truncated", "truncated"]


def test_end_of_a_run_belongs_to_the_message_that_has_ended() -> None:
    first, second = chunk(piece("{", "f", "c1"), id="one"), chunk(piece("{}", "g", "c2"), id="two")
    last = [chunk(id="lc_run--" + run, chunk_position="last") for run in "21"]
    payloads = [first, second, end(id="two"), last[0], chunk(piece("}"), id="one"), end(id="one")]
    calls, events = assemble([*payloads, last[1]])
    assert [call.verdict for call in calls] == ["complete", "complete"]
    assert [turn.message.id for turn in turns(events)] == ["two", "one"]


test_unreadable_payload_truncates_the_call = READER.test_unreadable(
    one_call("{}"),
    [
        *(b"?", b"7", {"type": "AIMessageChunk", "tool_call_chunks": "?"}),
        {"type": "AIMessageChunk", "tool_call_chunks": [{"args": 7, "index": 0}]},
        b'{"type": "AIMessageChunk", "tool_call_chunks": [{"args": ["{"], "index": 0}]}',
        {"lc": 1, "type": "constructor", "kwargs": {"type": "AIMessageChunk", "content": 7}},
        b'{"type":"AIMessageChunk","tool_call_chunks":[{"name":"g","args":{"a":1,"a":2}}]}',
        b'{"type":"ai","content":[{"type":"mcp_tool_use","name":"g","input":{"a":1,"a":2}}]}',
    ],
    [end()],
)


def test_line_with_a_lone_surrogate_is_read() -> None:
    line = r'{"type": "ai", "id": "m", "content": "a\ud83d", "tool_calls": []}'
    assert texts(assemble([line])[1]) == ["a"]
