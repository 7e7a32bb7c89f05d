"""An agent for the scenes of a chat, whose answer depends on the last message only.

A prompt that ends with ", and wait for NAME" is answered halfway until the prompt "go on with NAME"
arrives in any conversation.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator
from typing import Any

from argstream import Agent, tool
from argstream.errors import ProviderError
from argstream.history import Message, ResultPart, TextPart
from argstream.models import CallTool, ModelRequest, Reply, ScriptedModel, Think
from argstream.runs import MemoryStore
from tests.agent.following import Effects

ODD = {"__proto__": {"admin": True}, "constructor": {"prototype": {}}}
SEPARATORS = "one\u2028two\u2029three\u0085four\r\nfive\x00\x1b"
SPEECH = "All that is said here is said slowly. " * 30
MUCH = "word " * 400
_WAIT = ", and wait for "
_GO_ON = "go on with "


class _Model(ScriptedModel):
    def __init__(self) -> None:
        super().__init__(_answer, delay=0.002, repeat=True)
        self._may_go_on: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[dict[str, Any], None]:
        asked = [_said(message) for message in request.messages if message.role == "user"]
        prompt = next(filter(None, reversed(asked)), "")
        if prompt.startswith(_GO_ON):
            self._may_go_on[prompt.removeprefix(_GO_ON)].set()
        awaited = prompt.partition(_WAIT)[2]
        pieces = 0
        async for payload in super().stream(request):
            pieces += payload["type"] == "content_block_delta"
            if awaited and pieces == 20:
                await self._may_go_on[awaited].wait()
            yield payload


def keep(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data."""
    return data


def playing() -> tuple[Agent, Effects]:
    """An agent whose tool ``send`` needs approval, and the effects of its tools."""
    effects = Effects()
    tools = [tool(requires_confirmation=True)(effects.send), effects.write, keep]
    return Agent(_Model(), tools, store=MemoryStore()), effects


def _answer(request: ModelRequest) -> Reply:
    last = request.messages[-1]
    results = [part for part in last.parts if isinstance(part, ResultPart)]
    if results:
        return Reply("; ".join(str(part.result) for part in results), piece_size=20)
    match _said(last).partition(_WAIT)[0]:
        case "hello":
            return Reply(Think("Hm."), SEPARATORS)
        case "send to ada":
            return Reply("I send it.", CallTool("send", {"to": "ada"}))
        case "send to ada and eve":
            return Reply(CallTool("send", {"to": "ada"}), CallTool("send", {"to": "eve"}))
        case "send to nobody":
            return Reply(CallTool("send", '{"to": 7}'))
        case "keep odd keys":
            return Reply(CallTool("keep", {"data": ODD}))
        case "write much":
            return Reply(CallTool("write", {"path": "a", "content": MUCH}), piece_size=10)
        case "write very much":
            return Reply(CallTool("write", {"path": "a", "content": MUCH * 50}))
        case "speak at length":
            return Reply(SPEECH)
        case "keep a speech":
            call = CallTool("keep", {"data": {"speech": SPEECH}})
            return Reply(call, piece_size=len(SPEECH))
        case "count":
            said = [_said(message) for message in request.messages if message.role == "user"]
            return Reply(f"You said: {', '.join(said)}", piece_size=30)
        case said if said.startswith(_GO_ON):
            return Reply("Now it goes on.")
        case _:
            raise ProviderError("overloaded", "the model is busy")


def _said(message: Message) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, TextPart))
