"""The agent beside other frameworks: what each adds to one long call, a tool and a short text.

Models have all that they yield in memory and yield one item in each turn of the event loop. The
time of yielding alone is subtracted. ``python agent_peers.py`` prints JSON, in the environment that
has the frameworks. Each is loaded when it is measured.
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from functools import partial
from typing import Any, TypeAlias

import httpx2
import openai

from argstream import Agent
from argstream.runs import MemoryStore
from report import Cell, Figure, Table, fraction, microseconds, number, times
from timing import Job, calls_per_delta, cpu_time, exhaust_async, in_newer_python, take_turns
from timing import versions as versions_of
from workloads import responses_call, responses_text

Run: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

_OURS, _SOURCE = "argstream, memory store", "the model alone"
_MOST = {"openai-agents": 1.2, "pydantic-ai": 1 / 4, "LangGraph": 1 / 4}  # of their CPU time
_DELTA = "word "
_written: list[int] = []


def measure(*, quick: bool = False) -> tuple[Table, str]:
    """Return CPU time and function calls per delta, and the versions of the frameworks."""
    found = in_newer_python(__file__, *["--quick"] * quick)
    costs, ratios = list[Cell](["µs, calls per delta"]), list[Cell](["argstream / it"])
    for way, seconds in found["times"].items():
        ratio, ours = times if way == "openai-agents" else fraction, found["times"][_OURS]
        costs.append(Figure(f"{microseconds(seconds)}, {number(found['calls'][way])}"))
        ratios.append("–" if way.startswith("arg") else ratio(ours / seconds, _MOST.get(way)))
    return Table(["agent", *found["times"]], [costs, ratios]), found["versions"]


def _measure(*, quick: bool) -> dict[str, Any]:
    deltas = 400 if quick else 4_000
    jobs = []
    for name, make in _WAYS.items():
        _written.clear()
        asyncio.run(make(deltas)())
        if name != _SOURCE and _written != [len(_DELTA) * deltas]:
            sys.exit(f"{name}: the tool was not called with what the model wrote: {_written}")
        jobs.append(Job(name, "", partial(cpu_time, _runner(make, deltas), deltas)))
    found = take_turns(jobs, rounds=2 if quick else 9, most_seconds=20.0)
    calls = {name: calls_per_delta(partial(_runner, make), 200) for name, make in _WAYS.items()}
    ways = [name for name in _WAYS if name != _SOURCE]
    return {
        "times": {name: found[name, ""] - found[_SOURCE, ""] for name in ways},
        "calls": {name: calls[name] - calls[_SOURCE] for name in ways},
        "versions": versions_of("openai-agents", "pydantic-ai-slim", "langgraph"),
    }


def _runner(make: Callable[[int], Run], deltas: int) -> Callable[[], None]:
    run = make(deltas)
    return lambda: asyncio.run(run())


def write_file(path: str, content: str) -> str:
    """Write a file. This one writes nothing."""
    _written.append(len(content))
    return path


def _pieces(deltas: int) -> list[str]:
    return ['{"path": "a.py", "content": "', *[_DELTA] * deltas, '"}']


async def _one_by_one(items: Iterable[Any]) -> AsyncGenerator[Any, None]:
    for item in items:
        await asyncio.sleep(0)
        yield item


def _turns(deltas: int, *, as_bytes: bool = False) -> list[list[Any]]:
    """Return the two turns of the model as bytes, or as the events that openai's client makes."""
    turns: list[list[Any]] = [responses_call(_pieces(deltas)), responses_text("Done.")]
    return turns if as_bytes else [_openai_events(b"".join(turn)) for turn in turns]


def _openai_events(data: bytes) -> list[Any]:
    response = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=data)
    http = httpx2.Client(transport=httpx2.MockTransport(lambda _: response))
    client = openai.OpenAI(api_key="none", http_client=http)
    return list(client.responses.create(model="gpt-4o-mini", input="Hello", stream=True))


# The agents


def _argstream(deltas: int, *, has_store: bool = True, as_bytes: bool = False) -> Run:
    turns = _turns(deltas, as_bytes=as_bytes)

    class Model:
        name, protocol = "ready", "openai-responses"

        def stream(self, request: Any) -> AsyncGenerator[Any, None]:
            return _one_by_one(turns[len(request.messages) > 1])

    def run() -> Coroutine[Any, Any, None]:
        agent = Agent(Model(), [write_file], store=MemoryStore() if has_store else None)
        return exhaust_async(agent.run_stream("go"))

    return run


def _openai_agents(deltas: int) -> Run:
    import agents

    agents.set_tracing_disabled(disabled=True)
    turns = _turns(deltas)

    class Model(agents.Model):
        async def get_response(self, *_: Any, **__: Any) -> Any: ...

        def stream_response(self, *given: Any, **_: Any) -> Any:
            return _one_by_one(turns[isinstance(given[1], list) and len(given[1]) > 1])

    agent = agents.Agent("agent", model=Model(), tools=[agents.function_tool(write_file)])

    async def run() -> None:
        await exhaust_async(agents.Runner.run_streamed(agent, "go").stream_events())

    return run


def _pydantic_ai(deltas: int) -> Run:
    import pydantic_ai
    from pydantic_ai.models.function import DeltaToolCall, FunctionModel

    call = [{0: DeltaToolCall(json_args=piece)} for piece in _pieces(deltas)]
    call[0][0].name, call[0][0].tool_call_id = "write_file", "call_1"

    def stream(messages: list[Any], _: object) -> AsyncGenerator[Any, None]:
        return _one_by_one(call if len(messages) == 1 else ["Done."])

    agent = pydantic_ai.Agent(FunctionModel(stream_function=stream), tools=[write_file])

    async def run() -> None:
        async with agent.run_stream_events("go") as events:
            await exhaust_async(events)

    return run


def _langgraph(deltas: int, *, is_ready: bool = False) -> Run:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk
    from langchain_core.messages.tool import ToolCallChunk, tool_call_chunk
    from langchain_core.outputs import ChatGenerationChunk
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    def chunk(text: str, *calls: ToolCallChunk) -> ChatGenerationChunk:
        message = AIMessageChunk(content=text, tool_call_chunks=list(calls))
        return ChatGenerationChunk(message=message)

    pieces = [tool_call_chunk(args=piece, index=0) for piece in _pieces(deltas)]
    pieces[0]["name"], pieces[0]["id"] = "write_file", "call_1"
    chunks = [chunk("", piece) for piece in pieces]

    class Model(BaseChatModel):
        _llm_type = "ready"

        def _generate(self, *_: Any, **__: Any) -> Any: ...

        async def _astream(self, messages: list[Any], *_: Any, **__: Any) -> Any:
            if len(messages) > 1:
                yield chunk("Done.")
                return
            async for one in _one_by_one(chunks if is_ready else pieces):
                yield one if is_ready else chunk("", one)

    async def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await Model().ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", ask)
    graph.add_node("tools", ToolNode([write_file]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    compiled: Any = graph.compile()
    prompt = {"messages": [("user", "go")]}
    return lambda: exhaust_async(compiled.astream(prompt, stream_mode="messages"))


_WAYS: dict[str, Callable[[int], Run]] = {
    _SOURCE: lambda deltas: lambda: exhaust_async(_one_by_one(_pieces(deltas))),
    _OURS: _argstream,
    "argstream, no store": partial(_argstream, has_store=False),
    "argstream, from bytes": partial(_argstream, as_bytes=True),
    "openai-agents": _openai_agents,
    "pydantic-ai": _pydantic_ai,
    "LangGraph": _langgraph,
    "LangGraph, chunks ready": partial(_langgraph, is_ready=True),
}

if __name__ == "__main__":
    print(json.dumps(_measure(quick="--quick" in sys.argv)))
