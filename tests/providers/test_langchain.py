"""LangChain: its own message objects, from real models of ours, and every form they come in."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import pytest
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
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

from argstream import stream
from argstream.events import (
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    ToolArgsDelta,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    TurnCompleted,
    Usage,
)
from argstream.history import OpaquePart, TextPart, ThinkingPart
from tests.provider_streams import ONE_ARGUMENT_IN_TWO_PIECES, Reader, of_type, types

READER = Reader("langchain")
assemble, verdicts = READER.assemble, READER.verdicts


def found(payloads: list[Any]) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in assemble(payloads)[0]]


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


# A model of LangChain that streams


class Scripted(BaseChatModel):
    """A chat model that says these chunks."""

    chunks: list[AIMessageChunk]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise NotImplementedError

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for said in self.chunks:
            yield ChatGenerationChunk(message=said.model_copy())

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for said in self._stream(messages, stop, None, **kwargs):
            yield said


def scripted(*chunks: AIMessageChunk) -> Scripted:
    """A model that, as most do, leaves the ids of messages to LangChain."""
    return Scripted(chunks=[said.model_copy(update={"id": None}) for said in chunks])


MODEL_EVENTS = ["text_delta", *ONE_ARGUMENT_IN_TWO_PIECES, "turn_completed"]


def test_the_stream_of_a_model_is_a_stream() -> None:
    model = scripted(chunk(content="Well."), *WRITTEN, end())
    events = stream(model.stream("hi"), protocol="langchain")
    assert types(events) == MODEL_EVENTS
    assert [(call.id, call.arguments) for call in events.calls] == [("call_1", {"path": "/tmp"})]


def test_the_events_of_a_model_are_a_stream() -> None:
    async def read() -> list[str]:
        model = scripted(chunk(content="Well."), *WRITTEN, end())
        source = model.astream_events("hi", version="v2")
        return [event.type async for event in stream(source, protocol="langchain")]

    assert asyncio.run(read()) == MODEL_EVENTS


def test_what_langchain_adds_up_is_what_we_say() -> None:
    """Its own sum of the chunks is right where ids and indexes are."""
    usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    model = scripted(
        chunk(content="One, "),
        chunk(content="two."),
        chunk(piece('{"a":', "f", "c1", 0), piece('{"b":', "g", "c2", 1)),
        chunk(piece("[1]}", index=0)),
        chunk(piece('"x"}', index=1)),
        end(usage_metadata=usage),
    )
    chunks = list(model.stream("hi"))
    whole = sum(chunks[1:], chunks[0])
    calls, events = assemble(chunks)
    assert [(call.id, call.name, call.arguments) for call in calls] == [
        (call["id"], call["name"], call["args"]) for call in whole.tool_calls
    ]
    assert "".join(event.text for event in of_type(events, TextDelta)) == whole.text
    (turn,) = of_type(events, TurnCompleted)
    assert (turn.usage.input_tokens, turn.usage.output_tokens) == (3, 4)


# Which call a piece belongs to


@pytest.mark.parametrize(
    "payloads",
    [
        [
            chunk(piece('{"a":', "f", "c1", 0)),
            chunk(piece('{"b":', "g", "c2", 1)),
            chunk(piece("1}", index=0), piece("2}", index=1)),
        ],
        # As ChatOllama sends them: whole, without an index, all in one chunk.
        [chunk(piece('{"a": 1}', "f", "c1", None), piece('{"b": 2}', "g", "c2", None))],
        [chunk(piece('{"a": 1}', "f", "c1", 0)), chunk(piece('{"b": 2}', "g", "c2", 0))],
    ],
    ids=["indexes", "ids", "the same index with another id and a name"],
)
def test_pieces_are_told_apart(payloads: list[Any]) -> None:
    assert found([*payloads, end()]) == [("f", {"a": 1}), ("g", {"b": 2})]
    assert verdicts([*payloads, end("length")]) == ["complete", "truncated"]


def test_guesses_at_unfinished_arguments_are_not_read() -> None:
    first = chunk(piece('{"path": "/t', "write", "call_1"))
    assert first.tool_calls[0]["args"] == {"path": "/t"}
    (call,), events = assemble([first])
    assert (call.verdict, call.raw) == ("truncated", '{"path": "/t')
    assert [event.delta for event in of_type(events, ToolArgsDelta)] == ['{"path": "/t']
    assert of_type(events, StreamFailed)[0].code == "truncated"


# How a message ends


@pytest.mark.parametrize(
    ("metadata", "verdict"),
    [
        ({"finish_reason": "tool_calls"}, "complete"),
        ({"finish_reason": "STOP"}, "complete"),
        ({"stop_reason": "tool_use", "stop_sequence": None}, "complete"),
        ({"stopReason": "end_turn"}, "complete"),
        ({"done": True, "done_reason": "stop"}, "complete"),
        ({"object": "response", "status": "completed"}, "complete"),
        ({"finish_reason": "length"}, "truncated"),
        ({"finish_reason": "MALFORMED_FUNCTION_CALL"}, "truncated"),
        ({"stop_reason": "max_tokens"}, "truncated"),
        ({"stopReason": "guardrail_intervened"}, "truncated"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "truncated"),
        ({"status": "incomplete"}, "truncated"),
    ],
)
@pytest.mark.parametrize("text", ['{"a":1}', ""])
def test_a_message_ends_in_the_words_of_its_provider(
    metadata: dict[str, Any], verdict: str, text: str
) -> None:
    payloads = [chunk(piece(text, "f", "c1")), chunk(response_metadata=metadata), LAST]
    calls, events = assemble(payloads)
    assert [call.verdict for call in calls] == [verdict]
    assert len(of_type(events, TurnCompleted)) == 1


@pytest.mark.parametrize(("text", "verdict"), [('{"a":1}', "complete"), ("", "truncated")])
@pytest.mark.parametrize("payload", [LAST, end("brand_new")])
def test_an_end_that_does_not_say_why_closes_what_is_whole_and_nothing_else(
    payload: AIMessageChunk, text: str, verdict: str
) -> None:
    assert verdicts([chunk(piece(text, "f", "c1")), payload]) == [verdict]


def test_usage_comes_in_parts_which_add_up_also_after_the_stop_reason() -> None:
    def usage(read: int, written: int, **details: Any) -> AIMessageChunk:
        counts = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
        return chunk(usage_metadata={**counts, **details})

    details = {
        "input_token_details": {"cache_read": 2, "cache_creation": 1},
        "output_token_details": {"reasoning": 3},
    }
    _, events = assemble([usage(10, 0), *WRITTEN, end(), usage(0, 5, **details), LAST])
    (turn,) = of_type(events, TurnCompleted)
    assert turn.usage == Usage(10, 5, 2, 1, 3)


# Content


def test_the_blocks_of_anthropic_do_not_say_a_call_twice() -> None:
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
    assert [event.text for event in of_type(events, TextDelta)] == ["Well."]
    (turn,) = of_type(events, TurnCompleted)
    assert [type(part).__name__ for part in turn.message.parts] == ["TextPart", "CallPart"]


@pytest.mark.parametrize(
    ("blocks", "kept"),
    [
        (
            [
                {"type": "thinking", "thinking": "H", "index": 0},
                {"type": "thinking", "thinking": "m", "index": 0},
                {"type": "thinking", "signature": "sig", "index": 0},
            ],
            {"type": "thinking", "thinking": "Hm", "signature": "sig", "index": 0},
        ),
        (
            [
                {"type": "reasoning", "reasoning": "H", "index": 0},
                {"type": "reasoning", "reasoning": "m", "index": 0, "extras": {"signature": "s"}},
            ],
            {"type": "reasoning", "reasoning": "Hm", "index": 0, "extras": {"signature": "s"}},
        ),
        (
            [
                {"type": "reasoning", "id": "rs", "summary": [], "index": 0},
                {"type": "reasoning", "summary": [{"index": 0, "text": "H"}], "index": 0},
                {"type": "reasoning", "summary": [{"index": 0, "text": "m"}], "index": 0},
                {"type": "reasoning", "summary": [], "encrypted_content": "x", "index": 0},
            ],
            {
                "type": "reasoning",
                "id": "rs",
                "summary": [{"index": 0, "text": "Hm"}],
                "index": 0,
                "encrypted_content": "x",
            },
        ),
        (
            [
                {"type": "reasoning_content", "reasoning_content": {"text": "H"}, "index": 0},
                {"type": "reasoning_content", "reasoning_content": {"text": "m"}, "index": 0},
                {"type": "reasoning_content", "reasoning_content": {"signature": "s"}, "index": 0},
            ],
            {
                "type": "reasoning_content",
                "reasoning_content": {"text": "Hm", "signature": "s"},
                "index": 0,
            },
        ),
    ],
)
def test_thoughts_are_shown_and_kept_as_their_provider_wants_them_back(
    blocks: list[dict[str, Any]], kept: dict[str, Any]
) -> None:
    payloads = [chunk(content=[block]) for block in blocks]
    answer = {"type": "text", "text": "Yes.", "index": 1}
    _, events = assemble([*payloads, chunk(content=[answer]), end("stop")])
    assert [event.text for event in of_type(events, ThinkingDelta)] == ["H", "m"]
    (turn,) = of_type(events, TurnCompleted)
    assert turn.message.parts == (ThinkingPart(text="Hm", item=kept), TextPart(text="Yes."))


def test_thoughts_may_stand_beside_the_content() -> None:
    payloads = [
        chunk(additional_kwargs={"reasoning_content": "H"}),
        chunk(additional_kwargs={"reasoning_content": "m"}),
        chunk(content="Yes."),
        end("stop"),
    ]
    assert types(assemble(payloads)[1]) == [
        "thinking_started",
        "thinking_delta",
        "thinking_delta",
        "thinking_completed",
        "text_delta",
        "turn_completed",
    ]


def test_a_block_that_nobody_knows_is_kept_as_it_came() -> None:
    search = {"type": "web_search_call", "id": "ws", "status": "completed", "index": 0}
    blocks = [search, "Found ", {"type": "refusal", "refusal": "nothing."}]
    _, events = assemble([chunk(content=blocks), end("stop")])
    (turn,) = of_type(events, TurnCompleted)
    assert turn.message.parts[0] == OpaquePart(item=search)
    assert "".join(event.text for event in of_type(events, TextDelta)) == "Found nothing."
    odd = {"type": "non_standard", "value": {"type": "container_upload", "file_id": "x"}}
    (turn,) = of_type(assemble([chunk(content=[odd]), end("stop")])[1], TurnCompleted)
    assert turn.message.parts == (OpaquePart(item=odd),)


@pytest.mark.parametrize(
    ("blocks", "kind"),
    [
        (
            [
                {"type": "server_tool_use", "id": "s1", "name": "f", "input": {}, "index": 1},
                {"type": "input_json_delta", "partial_json": '{"a"', "index": 1},
                {"type": "input_json_delta", "partial_json": ":1}", "index": 1},
                {"type": "web_search_tool_result", "tool_use_id": "s1", "content": "r", "index": 2},
            ],
            "server",
        ),
        (
            [
                {"type": "mcp_tool_use", "id": "s1", "name": "f", "input": {"a": 1}, "index": 1},
                {"type": "mcp_tool_result", "tool_use_id": "s1", "content": "r", "index": 2},
            ],
            "mcp",
        ),
        (
            [
                {"type": "server_tool_call_chunk", "id": "s1", "name": "f", "index": 1},
                {"type": "server_tool_call_chunk", "args": '{"a":1}', "index": 1},
                {"type": "server_tool_result", "tool_call_id": "s1", "output": "r", "index": 2},
            ],
            "server",
        ),
        (
            [{"type": "mcp_call", "id": "s1", "name": "f", "arguments": '{"a":1}', "output": "r"}],
            "mcp",
        ),
    ],
)
def test_a_call_that_the_provider_runs_is_in_the_content_with_its_result(
    blocks: list[dict[str, Any]], kind: str
) -> None:
    calls, events = assemble([*(chunk(content=[block]) for block in blocks), end("stop")])
    assert [(call.kind, call.verdict) for call in calls] == [(kind, "complete")]
    assert of_type(events, ToolCallCompleted) == [ToolCallCompleted("s1", "f", {"a": 1}, "r")]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "mcp_tool_result", "tool_use_id": "s1", "content": "r", "is_error": True},
        {"type": "server_tool_result", "tool_call_id": "s1", "output": "r", "status": "error"},
    ],
)
def test_a_call_that_the_provider_runs_may_fail(block: dict[str, Any]) -> None:
    use = {"type": "server_tool_use", "id": "s1", "name": "f", "input": {}, "index": 0}
    _, events = assemble([chunk(content=[use]), chunk(content=[block]), end("stop")])
    assert of_type(events, ToolCallFailed) == [ToolCallFailed("s1", "f", "r")]


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
def test_a_call_of_openai_is_a_call_in_each_version_of_the_output(said: Any) -> None:
    (call,), _ = assemble([said(PATCH), end("stop")])
    assert (call.id, call.kind, call.arguments) == ("c1", "patch", OPERATION)
    action = {"commands": ["rm -rf /"]}
    shell = {"type": "shell_call", "id": "s", "call_id": "c1", "action": action}
    (call,), _ = assemble([said({**shell, "status": "completed"}), end("stop")])
    assert (call.id, call.name, call.kind, call.arguments) == ("c1", "shell", "client", action)


def test_program_of_openai_ends_with_its_output() -> None:
    program = {"type": "program", "id": "p", "call_id": "c1", "code": "1+1", "fingerprint": "f"}
    output = {"type": "program_output", "id": "po", "call_id": "c1", "result": "2", "index": 1}
    _, events = assemble([chunk(content=[{**program, "index": 0}, output]), end("completed")])
    assert of_type(events, ToolCallCompleted) == [ToolCallCompleted("c1", "program", "1+1", "2")]


def test_what_the_provider_ran_may_stand_beside_the_content() -> None:
    outputs: list[dict[str, Any]] = [
        {"type": "web_search_call", "id": "ws", "status": "completed", "index": 0},
        {"type": "mcp_call", "id": "s1", "name": "f", "arguments": '{"a":1}', "output": "r"},
        {"type": "code_interpreter_call", "id": "s2", "code": "1+1", "outputs": ["2"]},
    ]
    said = [chunk(additional_kwargs={"tool_outputs": [output]}) for output in outputs]
    calls, events = assemble([*said, end("completed")])
    assert [(call.kind, call.arguments) for call in calls] == [("mcp", {"a": 1}), ("code", "1+1")]
    assert [event.result for event in of_type(events, ToolCallCompleted)] == ["r", ["2"]]
    (turn,) = of_type(events, TurnCompleted)
    assert turn.message.parts[0] == OpaquePart(item=outputs[0])


def test_in_a_sum_of_chunks_the_text_of_a_call_is_beside_its_input() -> None:
    use = {"type": "server_tool_use", "id": "s1", "name": "f", "input": {}, "index": 0}
    part = {"type": "input_json_delta", "partial_json": '{"a":1}', "index": 0}
    said = message_chunk_to_message(chunk(content=[use]) + chunk(content=[part]) + end("stop"))
    assert found([said]) == [("f", {"a": 1})]


# Several messages


ANSWER = [chunk(content="Done.", id="lc_run--2"), end("stop", id="lc_run--2")]


def test_each_message_is_a_turn_and_what_came_of_a_call_completes_it() -> None:
    payloads = [HumanMessage("hi"), *WRITTEN, end(), LAST, ToolMessage("ok", tool_call_id="call_1")]
    _, events = assemble([*payloads, *ANSWER])
    assert types(events)[-4:] == [
        "turn_completed",
        "tool_call_completed",
        "text_delta",
        "turn_completed",
    ]
    assert of_type(events, ToolCallCompleted) == [
        ToolCallCompleted("call_1", "write", {"path": "/tmp"}, "ok")
    ]


@pytest.mark.parametrize("text", ['{"a":1}', ""])
def test_a_tool_that_was_run_says_that_its_message_was_whole(text: str) -> None:
    """Not every model tells why it ended, but tools are run on whole messages only."""
    payloads = [chunk(piece(text, "f", "c1")), ToolMessage("ok", tool_call_id="c1"), *ANSWER]
    calls, events = assemble(payloads)
    assert [call.verdict for call in calls] == ["complete"]
    assert len(of_type(events, TurnCompleted)) == 2
    failed = ToolMessage("boom", tool_call_id="c1", status="error")
    calls, events = assemble([chunk(piece(text, "f", "c1")), failed])
    assert [call.verdict for call in calls] == ["truncated"]
    assert events[-1] == ToolCallFailed("c1", "f", "boom")


def test_a_message_keeps_its_turn_though_its_id_changes() -> None:
    """What OpenAI names first, LangChain calls by the id of its run from then on."""
    payloads = [
        chunk(id="resp_1"),
        *WRITTEN,
        end(usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}),
        LAST,
        chunk(id="resp_2"),
        *ANSWER,
    ]
    _, events = assemble(payloads)
    turns = of_type(events, TurnCompleted)
    assert [turn.message.id for turn in turns] == ["resp_1", "resp_2"]
    assert of_type(events, StreamFailed) == []
    _, events = assemble([chunk(id="resp_1"), chunk(id="resp_2"), *ANSWER])
    assert types(events) == ["text_delta", "turn_completed"]  # of the first, only the id came


def test_a_model_that_names_its_messages_may_end_them_under_the_id_of_the_run() -> None:
    model = Scripted(chunks=[chunk(piece("{}", "f", "c1"), id="mine"), end(id="mine")])
    chunks = list(model.stream("hi"))
    assert [said.id == "mine" for said in chunks] == [True, True, False]
    calls, events = assemble(chunks)
    assert [call.verdict for call in calls] == ["complete"]
    assert types(events)[-1] == "turn_completed"
    assert len(of_type(events, TurnCompleted)) == 1


def test_the_parts_of_a_message_may_have_ids_of_their_own() -> None:
    """As OpenAI's have with output_version="v0"."""
    payloads = [
        chunk(),
        chunk(id="msg_1"),
        chunk(content="One, "),
        chunk(id="msg_1"),
        chunk(id="msg_2"),
        chunk(content="two."),
        chunk(id="msg_2"),
        *WRITTEN,
        end("completed"),
        LAST,
    ]
    _, events = assemble(payloads)
    assert of_type(events, StreamFailed) == []
    (turn,) = of_type(events, TurnCompleted)
    assert [type(part).__name__ for part in turn.message.parts] == ["TextPart", "CallPart"]


def test_messages_without_ids_are_told_apart_by_their_ends() -> None:
    first = [chunk(piece("{}", "f", "c1"), id=None), end(id=None)]
    second = [chunk(piece("{}", "f", "c2"), id=None), end(id=None)]
    calls, events = assemble([*first, *second])
    assert [call.verdict for call in calls] == ["complete", "complete"]
    assert len(of_type(events, TurnCompleted)) == 2


def whole(*calls: tuple[str, dict[str, Any]], reason: str = "", **fields: Any) -> AIMessage:
    metadata = {"finish_reason": reason} if reason else {}
    given = [{"name": "f", "args": args, "id": id_} for id_, args in calls]
    return AIMessage(tool_calls=given, response_metadata=metadata, **{"content": "", **fields})


def test_a_message_that_was_not_streamed_has_whole_calls() -> None:
    invalid = [{"name": "g", "args": '{"b', "id": "c3", "error": "no"}]
    message = whole(("c1", {"a": [1]}), ("c2", {}), reason="tool_calls", invalid_tool_calls=invalid)
    calls, events = assemble([message])
    assert {call.id: call.verdict for call in calls} == {
        "c1": "complete",
        "c2": "complete",
        "c3": "truncated",
    }
    assert [call.arguments for call in calls if call.name == "f"] == [{"a": [1]}, {}]
    assert types(events)[-1] == "turn_completed"


@pytest.mark.parametrize("reason", ["", "brand_new", "length", "lengthlength"])
def test_a_whole_message_may_have_guessed_at_its_last_call(reason: str) -> None:
    calls, events = assemble([whole(("c1", {"a": 1}), ("c2", {"a": "tr"}), reason=reason)])
    assert [call.verdict for call in calls] == ["complete", "truncated"]
    assert of_type(events, StreamFailed) == []
    (turn,) = of_type(events, TurnCompleted)
    assert turn.stop_reason == (reason.replace("lengthlength", "length") or None)


def test_what_langchain_makes_of_chunks_that_were_cut_is_not_complete() -> None:
    cut = chunk(piece('{"path": "/etc", "recursive": tr', "write", "call_1"))
    message = message_chunk_to_message(cut)
    assert isinstance(message, AIMessage)
    assert message.tool_calls[0]["args"] == {"path": "/etc"}
    assert verdicts([message]) == ["truncated"]


def test_a_call_that_nothing_proves_is_cut_when_its_writer_goes_on() -> None:
    _, events = assemble([whole(("c1", {"a": 1}), id="m1"), *ANSWER])
    assert types(events)[-4:] == [
        "tool_args_invalid",
        "turn_completed",
        "text_delta",
        "turn_completed",
    ]


def test_another_writer_does_not_say_that_a_whole_message_is_over() -> None:
    result = ToolMessage("ok", tool_call_id="c1")
    first = (whole(("c1", {"a": 1}), id="m1"), node("f"))
    beside = [(message, node("g")) for message in ANSWER]
    assert verdicts([first, *beside, (result, node("tools"))]) == ["complete"]


@pytest.mark.parametrize(("status", "verdict"), [("success", "complete"), ("error", "truncated")])
def test_a_tool_that_was_run_says_whether_a_call_was_a_guess(status: Any, verdict: str) -> None:
    message = whole(("c1", {"a": 1}), ("c2", {"a": 2}))
    first = ToolMessage("?", tool_call_id="c1", status="error")
    last = ToolMessage("?", tool_call_id="c2", status=status)
    assert verdicts([message, first]) == ["complete", "truncated"]
    calls, events = assemble([message, first, last])
    assert [call.verdict for call in calls] == ["complete", verdict]
    assert len(of_type(events, TurnCompleted)) == 1
    results = of_type(events, ToolCallCompleted, ToolCallFailed)
    assert [event.call_id for event in results] == ["c1", "c2"]


def test_the_text_of_a_call_is_better_than_what_was_made_of_it() -> None:
    cut = chunk(piece('{"a": tr', "f", "c1")).model_dump()
    assert cut["tool_calls"][0]["args"] == {}
    (call,), _ = assemble([{**cut, "type": "ai", "response_metadata": {"finish_reason": "stop"}}])
    assert (call.verdict, call.raw) == ("truncated", '{"a": tr')


@pytest.mark.parametrize(("reason", "verdict"), [("MAX_TOKENS", "truncated"), ("STOP", "complete")])
def test_a_reason_that_langchain_has_joined_is_still_the_reason(reason: str, verdict: str) -> None:
    said = chunk(piece("{}", "f", "c1")) + end(reason) + end(reason) + end(reason)
    assert said.response_metadata["finish_reason"] == reason * 3
    for message in (said, message_chunk_to_message(said)):
        (call,), events = assemble([message])
        assert call.verdict == verdict
        (turn,) = of_type(events, TurnCompleted)
        assert turn.stop_reason == reason


# What is around a message


PAYLOADS: list[BaseMessage] = [*WRITTEN, end(), LAST, ToolMessage("ok", tool_call_id="call_1")]


class StreamPart(NamedTuple):
    """What the client of LangGraph's server gives."""

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
def test_a_message_is_the_same_in_every_form(form: Any) -> None:
    plain = assemble(list(PAYLOADS))
    given = assemble([form(message) for message in PAYLOADS])
    assert given[1] == plain[1]
    assert types(plain[1])[-1] == "tool_call_completed"


def test_what_holds_no_message_is_ignored() -> None:
    odd: list[object] = [
        ("updates", {"agent": {"messages": []}}),
        ("values", {}),
        StreamPart("metadata", {"run_id": "1"}),
        StreamPart("messages/partial", [WRITTEN[0].model_dump()]),
        ((), {"agent": {"messages": []}}),
        [1, 2, 3],
        {"event": "on_chain_start", "data": {"input": "hi"}, "run_id": "r"},
        {"event": "on_tool_end", "data": {"output": "3"}, "run_id": "r"},
        {"a": 1},
        b"[]",
    ]
    payloads = [*WRITTEN, end()]
    assert assemble([payloads[0], *odd, *payloads[1:]])[1] == assemble(payloads)[1]


def event(name: str, run: str = "run", **data: Any) -> dict[str, Any]:
    return {"event": name, "run_id": run, "data": data, "metadata": {}}


def test_an_event_at_the_end_of_a_run_says_nothing_twice() -> None:
    streamed = [event("on_chat_model_stream", chunk=said) for said in WRITTEN]
    whole = WRITTEN[0] + WRITTEN[1]
    for output in (whole, AIMessage("", id="lc_run--1")):
        calls, events = assemble([*streamed, event("on_chat_model_end", output=output)])
        assert [call.verdict for call in calls] == ["complete"]
        assert types(events)[-1] == "turn_completed"


def test_a_run_that_was_not_streamed_is_told_at_its_end() -> None:
    whole = chunk(piece('{"a":1}', "f", "c1"))
    result = ToolMessage("ok", tool_call_id="c1")
    payloads = [event("on_chat_model_end", output=whole), event("on_tool_end", "t", output=result)]
    assert types(assemble(payloads)[1])[-3:] == [
        "tool_args_completed",
        "turn_completed",
        "tool_call_completed",
    ]


def beside(first: list[Any], second: list[Any]) -> list[Any]:
    return [one for pair in zip(first, second, strict=True) for one in pair]


@pytest.mark.parametrize("nodes", [("f", "g"), ("agent", "agent")])
@pytest.mark.parametrize("order", [beside, lambda first, second: [*first[:2], *second, *first[2:]]])
def test_messages_side_by_side_keep_their_turns(order: Any, nodes: tuple[str, str]) -> None:
    def written(name: str, run: str, writer: str) -> list[Any]:
        messages = [
            chunk(id="resp_" + run),
            chunk(piece('{"a":', name, "c" + run), id="lc_run--" + run),
            chunk(piece(f"{run}}}"), id="lc_run--" + run),
            end("completed", id="lc_run--" + run),
            chunk(id="lc_run--" + run, chunk_position="last"),
        ]
        return [(message, node(writer)) for message in messages]

    first, second = written("f", "1", nodes[0]), written("g", "2", nodes[1])
    calls, events = assemble(order(first, second))
    assert [(call.id, call.arguments) for call in calls] == [("c1", {"a": 1}), ("c2", {"a": 2})]
    assert of_type(events, StreamFailed) == []
    turns = {turn.message.id: turn.message.parts for turn in of_type(events, TurnCompleted)}
    assert {id_: [part.arguments for part in parts] for id_, parts in turns.items()} == {
        "resp_1": [{"a": 1}],
        "resp_2": [{"a": 2}],
    }
    first_two = of_type(events, ToolCallStarted, TurnCompleted)[:2]
    assert [event.type for event in first_two] == ["tool_call_started"] * 2
    assert verdicts([*first[:3], *second[:3]]) == ["truncated", "truncated"]
    assert verdicts([*first[:3], *second[:3], b"?", *first[3:]]) == ["truncated", "truncated"]


def test_a_run_that_ends_is_that_of_the_message_that_has_ended() -> None:
    first, second = chunk(piece("{", "f", "c1"), id="one"), chunk(piece("{}", "g", "c2"), id="two")
    last = [chunk(id="lc_run--" + run, chunk_position="last") for run in "21"]
    payloads = [first, second, end(id="two"), last[0], chunk(piece("}"), id="one"), end(id="one")]
    calls, events = assemble([*payloads, last[1]])
    assert [call.verdict for call in calls] == ["complete", "complete"]
    assert [turn.message.id for turn in of_type(events, TurnCompleted)] == ["two", "one"]


# What cannot be read


@pytest.mark.parametrize(
    "bad",
    [
        b"?",
        b"7",
        {"type": "AIMessageChunk", "tool_call_chunks": [{"args": 7, "index": 0}]},
        {"type": "AIMessageChunk", "tool_call_chunks": "?"},
        b'{"type": "AIMessageChunk", "tool_call_chunks": [{"args": ["{"], "index": 0}]}',
        {"lc": 1, "type": "constructor", "kwargs": {"type": "AIMessageChunk", "content": 7}},
        b'{"type":"AIMessageChunk","tool_call_chunks":[{"name":"g","args":{"a":1,"a":2}}]}',
        b'{"type":"ai","content":[{"type":"mcp_tool_use","name":"g","input":{"a":1,"a":2}}]}',
    ],
)
def test_a_payload_of_a_wrong_form_cuts_what_is_open(bad: object) -> None:
    calls, events = assemble([chunk(piece("{}", "f", "c1")), bad, end()])
    assert calls[0].verdict == "truncated"
    assert "complete" not in [call.verdict for call in calls]
    assert "bad_payload" in [event.code for event in of_type(events, StreamFailed)]


def test_a_call_without_a_name_is_known_when_something_is_lost() -> None:
    calls, _ = assemble([chunk(piece("{}", None, "c1")), b"?", chunk(piece(None, "f")), end()])
    assert [call.verdict for call in calls] == ["truncated"]


def test_half_a_surrogate_pair_does_not_cost_the_line() -> None:
    line = r'{"type": "ai", "id": "m", "content": "a\ud83d", "tool_calls": []}'
    assert [event.text for event in of_type(assemble([line])[1], TextDelta)] == ["a"]


def test_a_message_that_somebody_made_of_what_was_streamed_is_no_other() -> None:
    streamed = [chunk(piece('{"a": 1}', "f", "c1"), id="lc_run--1"), end(id="lc_run--1")]
    again = AIMessage("", id="other", tool_calls=[{"name": "f", "args": {"a": 1}, "id": "c1"}])
    calls, events = assemble([*streamed, again])
    assert [call.id for call in calls] == ["c1"]
    assert len(of_type(events, TurnCompleted)) == 1
    calls, _ = assemble([*streamed, ToolMessage("ok", tool_call_id="c1"), again])
    assert [call.id for call in calls] == ["c1", "c1"]  # ids may repeat across turns


def test_a_run_is_not_put_into_a_message_that_speaks_under_its_own_id() -> None:
    payloads = [
        chunk(piece('{"path":', "rm", "c1"), id="own"),
        chunk(piece('{"path":', "ls", "c2"), id="lc_run--2"),
        chunk(piece('"/a"}'), id="own"),
        end(id="own"),
        chunk(piece('"/b"}'), id="lc_run--2"),
        end(id="lc_run--2"),
    ]
    calls, _ = assemble(payloads)
    assert {call.name: call.arguments for call in calls} == {
        "rm": {"path": "/a"},
        "ls": {"path": "/b"},
    }
