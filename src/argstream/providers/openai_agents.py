"""openai-agents: the events of ``Runner.run_streamed(...).stream_events()``.

- ``raw_response_event`` holds an event of OpenAI Responses. The SDK converts the streams of other
  models to that form.
- ``run_item_stream_event`` reports each item once more when it is whole, and the results of tools
  and handoffs. Only results are read. The result of a tool that raised is a text that says so.
- ``agent_updated_stream_event`` names the agent that runs. It is not read.

No event marks the end of a run. It has ended if the stream ends after a response without calls that
the agent runs. The text of that response is the result.
"""

from collections.abc import Mapping
from typing import Any, Final

from argstream.providers import _deltas as d
from argstream.providers._payloads import (
    UnreadableError,
    fields_of,
    json_value,
    plain,
    text_of,
    texts_in,
    total,
)
from argstream.providers.openai_responses import OpenAIResponsesDecoder

_RESULTS: Final = {"tool_call_output_item", "handoff_output_item"}


class OpenAIAgentsDecoder(d.ProviderDecoder):
    """Events of a run → deltas."""

    protocol = "openai-agents"

    def __init__(self) -> None:
        self._model = OpenAIResponsesDecoder()
        self._is_open = False  # whether a response is open
        self._calls_tools = True  # whether the newest response has calls that the agent runs
        self._text = ""  # of the newest response
        self._tokens = d.Tokens()  # of all responses

    def feed(self, payload: object, event: str = "") -> list[d.Delta]:
        """Return the deltas of one event: an object, a dict, or JSON."""
        fields = fields_of(payload)
        match fields.get("type"):
            case "raw_response_event":
                deltas = self._model.feed(fields.get("data"), event)
                for delta in deltas:
                    self._note(delta)
                return deltas
            case "run_item_stream_event":
                return self._item(fields_of(fields.get("item")))
            case str():
                return []  # not used: agent_updated_stream_event, and types added later
        raise UnreadableError(f"expected an event of openai-agents, not {type(payload).__name__}")

    def close(self) -> list[d.Delta]:
        """End the run, if the last response called no tool."""
        ended = d.RunEnded("completed", self._text, tokens=self._tokens)
        return [] if self._is_open or self._calls_tools else [ended]

    def _note(self, delta: d.Delta) -> None:
        """Keep track of the response. Its last event may be repeated."""
        match delta:
            case d.TurnClosed():
                self._is_open = False
            case d.UsageReported(tokens) if self._is_open:
                self._tokens = d.Tokens(*map(total, self._tokens, tokens))
            case d.UsageReported() | d.TurnEnded():
                pass
            case _:
                if not self._is_open:
                    self._is_open, self._calls_tools, self._text = True, False, ""
                if isinstance(delta, d.CallOpened) and delta.kind not in d.RUN_BY_PROVIDER:
                    self._calls_tools = True

    def _item(self, item: Mapping[str, Any]) -> list[d.Delta]:
        type_, raw = item.get("type"), fields_of(item.get("raw_item"))
        if type_ == "message_output_item":
            self._text = "".join(texts_in(plain(raw.get("content"))))
        if type_ not in _RESULTS or not (call_id := text_of(raw.get("call_id"))):
            return []
        result = item["output"] if "output" in item else raw.get("output")
        return [d.CallResult(call_id, json_value(result), raw.get("status") == "failed")]
