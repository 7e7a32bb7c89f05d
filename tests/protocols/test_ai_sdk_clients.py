"""Runs by chance, as the published clients of the AI SDK read them."""

import asyncio
import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings

from argstream.protocols.ai_sdk import AiSdkEncoder
from argstream.runs import Record
from tests.chance_runs import RUN
from tests.protocols.reading import snapshot_of
from tests.protocols.test_ai_sdk_properties import records_and_cut, run_with_pauses
from tests.server.nodes import run_node

_END = b"data: [DONE]\n\n"


def test_the_clients_end_up_with_the_same_whenever_they_come(tmp_path: Path) -> None:
    drawn: list[tuple[list[Record], int]] = []

    @settings(database=None)
    @given(records_and_cut)
    def draw(one: tuple[list[Record], int]) -> None:
        drawn.append(one)

    draw()
    streams = [told for records, cut in drawn for told in (_early(records), _late(records, cut))]
    file = tmp_path / "streams.json"
    file.write_text(json.dumps(streams))

    for messages in run_node("ai_sdk_fold.mjs", str(file)):
        assert len(messages) == len(streams)
        for early, late in zip(messages[::2], messages[1::2], strict=True):
            assert _shown(late) == _shown(early)


def test_two_tabs_end_up_with_the_same_though_one_came_after_a_pause(tmp_path: Path) -> None:
    records = asyncio.run(run_with_pauses())
    streams = [_early(records), *(_second_tab(records, cut) for cut in range(1, len(records)))]
    file = tmp_path / "streams.json"
    file.write_text(json.dumps(streams))

    for first, *others in run_node("ai_sdk_fold.mjs", str(file)):
        assert len(others) == len(records) - 1
        assert {part.get("state") for part in first["parts"] if "text" in part} == {"done"}
        for other in others:
            assert _whole(other) == _whole(first)


def _second_tab(records: list[Record], cut: int) -> list[str]:
    """What one is sent who comes when another watches already."""
    encoder = AiSdkEncoder(RUN)
    for one in records[:cut]:
        encoder.take([one])
    data = encoder.opening(snapshot_of(records[:cut])).data
    return _streams(data + b"".join(encoder.take([one]).data for one in records[cut:]))


def _whole(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts, all that is said of them; decisions are told behind what they are about."""
    return [part for part in message["parts"] if not part["type"].startswith("data-argstream-")]


def _early(records: list[Record]) -> list[str]:
    encoder = AiSdkEncoder(RUN)
    return _streams(b"".join(encoder.take([one]).data for one in records))


def _late(records: list[Record], cut: int) -> list[str]:
    encoder = AiSdkEncoder(RUN)
    encoder.begin(snapshot_of(records[:cut]))
    data = encoder.opening(snapshot_of(records[:cut])).data
    return _streams(data + b"".join(encoder.take([one]).data for one in records[cut:]))


def _streams(data: bytes) -> list[str]:
    return [stream.decode() for stream in data.split(_END) if stream]


def _shown(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts, without what may be told at another place or a little later."""
    return [
        {key: value for key, value in part.items() if key != "state" or "text" not in part}
        for part in message["parts"]
        if not part["type"].startswith("data-argstream-")
    ]
