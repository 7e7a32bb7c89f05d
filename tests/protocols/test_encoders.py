"""Common to all formats: text cannot end a frame, and a close reason says how to reconnect."""

import pytest

from argstream import events as ev
from argstream.protocols import Encoder, Parting
from argstream.protocols.ag_ui import AgUiEncoder
from argstream.protocols.ai_sdk import AiSdkEncoder
from argstream.protocols.converse import ConverseEncoder
from argstream.protocols.native import NativeEncoder
from tests.protocols.reading import read, records_of

ENCODERS = [
    (NativeEncoder(), b"; come again"),
    (ConverseEncoder("run_1", "talk_1"), b"; follow the run by its id"),
    (AiSdkEncoder("run_1"), b"; resume the stream"),
    (AgUiEncoder("thread", "ask"), b"; ask again to go on with the run"),
]
NASTY = "data: x\r\n\r\nid: 99\n\nevent: y\u2028\u2029\x85\x00\ufeff: data: [DONE]\rz"


@pytest.mark.parametrize(("encoder", "how"), ENCODERS)
@pytest.mark.parametrize("why", ["shutdown", "behind", "failure"])
def test_close_reason_says_how_to_reconnect(encoder: Encoder, how: bytes, why: Parting) -> None:
    written = encoder.parting(why)
    assert how in written
    assert written.endswith(b"\n\n")
    last = written.split(b"\n\n")[-2]
    match encoder:
        case NativeEncoder():
            assert written.startswith(b"retry: 1000\n: ")
        case AiSdkEncoder():
            assert last == b"data: [DONE]"
        case ConverseEncoder():
            error, done = read(written)
            assert error.data["error"]["code"] == why
            assert done.data["done"]["status"] == "running"
        case _:
            [error] = read(written)
            assert (error.data["type"], error.data["code"]) == ("RUN_ERROR", why)


@pytest.mark.parametrize("encoder", [encoder for encoder, _ in ENCODERS])
def test_text_cannot_end_its_frame(encoder: Encoder) -> None:
    written = encoder.take(records_of([ev.TextDelta(NASTY, 0)]))
    assert NASTY in _texts(read(written.data)[-1].data)


def _texts(value: object) -> list[object]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _texts(inner)]
    return [value]
