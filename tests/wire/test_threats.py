"""Many tiny chunks: the decoders are linear in what they are fed."""

from collections.abc import Callable

import pytest

from argstream.testing import cut
from argstream.wire import AwsEventStreamDecoder, NdjsonDecoder, SseDecoder
from tests.growth import BOUND, growth
from tests.turns import aws_event as event

pytestmark = pytest.mark.timing


@pytest.mark.parametrize(
    ("decoder", "stream"),
    [
        (SseDecoder, lambda size: b"data: " + b"x" * size),
        (SseDecoder, lambda size: b"event: e\ndata: {}\n\n" * (size // 20)),
        (SseDecoder, lambda size: b"data: x\r" * (size // 8)),
        (SseDecoder, lambda size: b"data: {}\n" * (size // 9)),
        (SseDecoder, lambda size: b"data: {\n" * (size // 8)),
        (NdjsonDecoder, lambda size: b"x" * size),
        (NdjsonDecoder, lambda size: b"{}\r\n" * (size // 4)),
        (AwsEventStreamDecoder, lambda size: event("chunk", b"x" * size)),
        (AwsEventStreamDecoder, lambda size: event("chunk", b"{}") * (size // 60)),
    ],
)
@pytest.mark.parametrize("chunk", [4, 64])
def test_many_small_chunks(
    decoder: Callable[[], SseDecoder], stream: Callable[[int], bytes], chunk: int
) -> None:
    def job(size: int) -> Callable[[], object]:
        chunks = cut(stream(size), [chunk])

        def feed() -> None:
            reader = decoder()
            for piece in chunks:
                reader.feed(piece)

        return feed

    assert growth(job, 2**18) <= BOUND
