"""Tests that several protocols share: each method takes a table of cases and returns a test."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from argstream.events import StreamFailed
from argstream.history import Part
from argstream.policy import Policy, Prefix, Rule
from tests.provider_streams import Reader, failures, outcomes

Payloads = Iterable[Any]

NO_ETC = Policy([Rule("deny", argument="path", when=Prefix("/etc"))], default="allow")
SHORT = {"type": "object", "properties": {"path": {"type": "string", "maxLength": 4}}}
TOOLS = [{"name": "write", "input_schema": SHORT}]
# Options of a stream that rejects a call of ``write`` with the path /etc/passwd, and the reason.
rejecting = pytest.mark.parametrize(
    ("options", "reason"),
    [({"policy": NO_ETC}, "denied"), ({"tools": TOOLS, "stop_on": "rejected"}, "schema")],
)


def cases(
    title: str, build: Callable[[Any], Payloads], expected: Any, values: Iterable[Any]
) -> dict[str, tuple[Payloads, list[Any]]]:
    """Return a case for each value, all with the same outcome of their one call."""
    return {f"{title} {value}": (build(value), [expected]) for value in values}


class Tables(Reader):
    def parts(self, payloads: Payloads) -> list[Part]:
        """Return the parts of the one message."""
        return list(self.completed(payloads).message.parts)

    def test_outcomes(self, table: Mapping[str, tuple[Payloads, list[Any]]]) -> Any:
        """Test the arguments of each complete call and the verdict of each other call."""

        @pytest.mark.parametrize(("payloads", "expected"), table.values(), ids=table)
        def test(payloads: Payloads, expected: list[Any]) -> None:
            calls, _ = self.assemble(payloads)
            assert outcomes(calls) == expected
            assert len({call.id for call in calls}) == len(calls)

        return test

    def test_unreadable(self, begun: Payloads, payloads: Payloads, rest: Payloads) -> Any:
        """Test that each of the payloads truncates the open call and completes no other."""

        @pytest.mark.parametrize("payload", payloads)
        def test(payload: Any) -> None:
            calls, events = self.assemble([*begun, payload, *rest])
            assert {call.verdict for call in calls} == {"truncated"}
            assert failures(events)[0].code == "bad_payload"

        return test

    def test_failures(self, begun: Payloads, table: Iterable[tuple[Any, StreamFailed]]) -> Any:
        """Test that each payload is this failure, with an open call and at the start."""

        @pytest.mark.parametrize(("payload", "failed"), table)
        def test(payload: Any, failed: StreamFailed) -> None:
            calls, events = self.assemble([*begun, payload])
            assert ([call.verdict for call in calls], events[-1]) == (["truncated"], failed)
            assert self.assemble([payload])[1] == [failed]

        return test
