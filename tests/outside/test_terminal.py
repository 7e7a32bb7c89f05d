"""recordings/: what real models wrote, in a terminal."""

import json
from pathlib import Path
from typing import Any

import pytest

from argstream.sanitise import visible
from argstream.streaming import stream
from argstream.terminal import Line, Scene
from tests.outside.recordings import recordings


def seen(data: bytes) -> list[Line]:
    """Give all lines that are final in the end; on the way, look as often as a screen does."""
    scene, lines = Scene(), list[Line]()
    for now, event in enumerate(stream([data])):
        scene.take(event, now / 100)
        lines += scene.committed()
        assert len(scene.tail(now / 100, 40, 4)) <= 4
    scene.finish(1e6)
    assert scene.tail(1e6, 40, 4) == []
    return lines + scene.committed()


def leaves(value: Any) -> list[str]:
    match value:
        case dict():
            return [leaf for item in value.values() for leaf in leaves(item)]
        case list():
            return [leaf for item in value for leaf in leaves(item)]
        case str():
            return [visible(row).expandtabs(4).strip() for row in value.split("\n")]
        case _:
            return []


def quoted(text: str) -> str:
    """As it is between quotes, where a text is short."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


@pytest.mark.bulk
def test_every_word_of_every_argument_is_shown(outside_data: Path) -> None:
    for recording in recordings(outside_data):
        lines = [(*line.margin, *line.spans) for line in seen(recording.data)]
        shown = "\n".join("".join(span.text for span in line) for line in lines)
        for call in recording.calls:
            words = {word for leaf in leaves(call.get("args")) for word in leaf.split()}
            missing = {word for word in words if word not in shown and quoted(word) not in shown}
            assert not missing, f"{recording.name}: {missing}"
