"""A small, strict client of the AI SDK, which reads a UI message stream.

It follows ``processUIMessageStream`` of npm ``ai``, and raises where that raises. It also raises if
the stream leaves a part open.
"""

import json
from typing import Any

Part = dict[str, Any]

_ENDS = ("finish", "abort", "error")
_OPEN = ("input-streaming", "input-available", "approval-requested", "approval-responded")


class Client:
    def __init__(self, *, may_stay_open: bool = False) -> None:
        """Read a stream. ``may_stay_open``: a call may have no result at the end."""
        self._may_stay_open = may_stay_open
        self.id = ""
        self.metadata: dict[str, Any] = {}
        self.parts: list[Part] = []
        self.ends: list[Part] = []
        self.is_streaming = False
        self._texts: dict[tuple[str, str], Part] = {}

    def read(self, data: bytes) -> "Client":
        """Read a piece of a stream that ends between events."""
        events = data.decode().split("\n\n")
        assert events.pop() == ""
        for event in events:
            assert event.startswith("data: ")
            assert event.splitlines() == [event]
            if event == "data: [DONE]":
                assert not self.is_streaming, "the stream is done without an end"
            else:
                self._take(json.loads(event.removeprefix("data: ")))
        return self

    def _take(self, part: Part) -> None:
        kind: str = part["type"]
        if kind == "start":
            assert not self.is_streaming
            self.is_streaming = True
            self.id = part.get("messageId", "")
            self.metadata |= part.get("messageMetadata", {})
            return
        assert self.is_streaming, f"{kind} outside of a stream"
        if kind in _ENDS:
            self._end(part)
        elif kind.startswith("data-"):
            self._put_data(part)
        elif kind == "start-step":
            self.parts.append({"type": "step-start"})
        elif kind == "finish-step":
            assert not self._texts, "text is open at the end of a step"
        elif kind.startswith("tool-"):
            getattr(self, "_" + kind.replace("-", "_"))(part)
        else:
            name, _, step = kind.partition("-")
            self._update_text(name, step, part)

    def _end(self, part: Part) -> None:
        self.is_streaming = False
        self.metadata |= part.get("messageMetadata", {})
        self.ends.append(part)
        assert not self._texts, "text is open at the end"
        waiting = part["type"] == "finish" and part["finishReason"] == "tool-calls"
        for one in self.parts:
            if not (waiting or self._may_stay_open):
                assert one.get("state") not in _OPEN, f"the call is open at the end: {one}"
                assert not one.get("preliminary")

    def _put_data(self, part: Part) -> None:
        for one in self.parts:
            if "id" in part and (one["type"], one.get("id")) == (part["type"], part["id"]):
                one["data"] = part["data"]
                return
        self.parts.append(part)

    def _update_text(self, kind: str, step: str, part: Part) -> None:
        key = kind, part["id"]
        if step == "start":
            assert key not in self._texts
            metadata = part.get("providerMetadata")
            self._texts[key] = {"type": kind, "text": "", "state": "streaming", "of": metadata}
            self.parts.append(self._texts[key])
        elif step == "delta":
            self._texts[key]["text"] += part["delta"]
        else:
            assert step == "end"
            self._texts.pop(key)["state"] = "done"

    # Calls

    def _in_step(self, call_id: str) -> Part | None:
        for part in reversed(self.parts):
            if part["type"] == "step-start":
                break
            if part.get("toolCallId") == call_id:
                return part
        return None

    def _call(self, call_id: str) -> Part:
        found = [part for part in self.parts if part.get("toolCallId") == call_id]
        assert len(found) == 1, f"{len(found)} calls with the id {call_id}"
        return found[0]

    def _update(self, part: Part, state: str, **facts: Any) -> None:
        assert part["dynamic"] is True
        call_id = part["toolCallId"]
        call = self._in_step(call_id)
        if call is None:
            assert all(one.get("toolCallId") != call_id for one in self.parts)
            call = {"type": "dynamic-tool", "toolCallId": call_id}
            self.parts.append(call)
        if "providerMetadata" in part:
            call["of"] = part["providerMetadata"]
        if "providerExecuted" in part:
            call["providerExecuted"] = part["providerExecuted"]
        call |= {"toolName": part["toolName"], "state": state} | facts
        call.pop("preliminary", None)

    def _tool_input_start(self, part: Part) -> None:
        self._update(part, "input-streaming", input="", output=None, errorText=None)

    def _tool_input_delta(self, part: Part) -> None:
        call = self._in_step(part["toolCallId"])
        assert call is not None
        assert call["state"] == "input-streaming"
        call["input"] += part["inputTextDelta"]

    def _tool_input_available(self, part: Part) -> None:
        self._update(part, "input-available", input=part["input"], output=None, errorText=None)

    def _tool_input_error(self, part: Part) -> None:
        error = part["errorText"]
        self._update(part, "output-error", input=part["input"], output=None, errorText=error)

    def _tool_approval_request(self, part: Part) -> None:
        approval = {"id": part["approvalId"], "descriptor": part["approvalDescriptor"]}
        self._call(part["toolCallId"]).update(state="approval-requested", approval=approval)

    def _tool_output_denied(self, part: Part) -> None:
        self._call(part["toolCallId"])["state"] = "output-denied"

    def _tool_output_available(self, part: Part) -> None:
        self._end_call(part, "output-available", output=part["output"], errorText=None)
        if part.get("preliminary"):
            self._call(part["toolCallId"])["preliminary"] = True

    def _tool_output_error(self, part: Part) -> None:
        self._end_call(part, "output-error", output=None, errorText=part["errorText"])

    def _end_call(self, part: Part, state: str, **facts: Any) -> None:
        call = self._call(part["toolCallId"])
        call |= {"state": state} | facts
        call.pop("preliminary", None)
