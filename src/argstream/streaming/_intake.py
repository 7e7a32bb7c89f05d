"""Items of any kind → events: the machine behind ``stream()``. It fetches nothing itself.

An item is bytes or text of a response, cut anywhere or into lines; or a payload: a dict, an SDK's
object, a server-sent event that somebody else has decoded. What the bytes are (server-sent events,
JSON lines, an AWS event stream, or a recording of any of these) shows in the first of them.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from argstream.assembly import Assembler
from argstream.errors import UsageError
from argstream.events import Event, InvalidVerdict, StreamFailed
from argstream.recording.format import NOT_ENDED, is_recording
from argstream.streaming._recorded import Decoder, Ended, RecordingDecoder
from argstream.wire import AwsEventStreamDecoder, Broken, Frame, JsonTextDecoder, SseDecoder
from argstream.wire.frames import BYTE_ORDER_MARK
from argstream.wire.json_text import is_json

__all__ = ["Intake"]

_FIELDS: Final = (b"data:", b"event:", b"id:", b"retry:")
_SHOWN: Final = 80
# A list is several, a tuple has one in it (LangGraph's, xAI's). Messages of protocol buffers list
# their fields; all other objects have them where Python has them.
_PAYLOADS: Final = (Mapping, tuple, list)


class Intake:
    """Takes items, gives events."""

    def __init__(self, assembler: Assembler) -> None:
        self.assembler = assembler
        self._decoder: Decoder | RecordingDecoder | None = None
        self._payload_types: set[type] = {dict}
        self._held: list[bytes] = []  # until it is known whether items are lines
        self._first = b""  # of these, what is not empty
        self._lines = False  # whether items are lines
        self._is_unsure = False  # whether the next item tells that
        self._line_end = b""  # what they lack
        self._exhausted = False
        self._first_bytes = b""
        self._any_frame = False

    def take(self, item: object) -> list[Event]:
        """Take the next item."""
        if type(item) is bytes:
            if self._decoder is None or self._is_unsure or self._lines:
                return self._take_bytes(item)
            return self._decode(self._decoder, item)
        if type(item) in self._payload_types:
            before = self._begin() if self._held else []
            return before + self.assembler.feed(item)
        if isinstance(item, str):
            if item == ":" and self._decoder is None and not self._first:
                return []  # a comment that says nothing
            return self._take_bytes(_encoded(item))
        if isinstance(item, bytes | bytearray | memoryview):
            return self._take_bytes(bytes(item))
        if hasattr(item, "event") and isinstance(data := getattr(item, "data", None), str | bytes):
            event = getattr(item, "event", None)
            return self.assembler.feed(data, str(event or "")) if data else []
        if isinstance(item, _PAYLOADS) or hasattr(item, "__dict__") or hasattr(item, "ListFields"):
            self._payload_types.add(type(item))
            return self.take(item)
        raise UsageError(
            f"stream() cannot read an item of type {type(item).__name__}: "
            "it takes bytes, lines, dicts and the events of an SDK"
        )

    def close(self) -> list[Event]:
        """Say that there are no more items."""
        self._exhausted = True
        events = self._begin() if self._held else []
        for frame in self._close_decoder():
            # What the end cut off is no news: that there was no proper end is said anyway.
            if isinstance(frame, Frame) and _is_whole(frame.data):
                self._any_frame = True
                events += self.assembler.feed(frame.data, frame.event)
            elif isinstance(frame, Ended):
                events += self._end_recording(frame)
        if self._first_bytes and not self._any_frame:
            self.assembler.abort()
            shown = ascii(self._first_bytes)[1:]
            message = f"no event of a provider is in it; it begins with {shown}"
            return [StreamFailed("not_a_stream", message)]
        return events + self.assembler.close()

    def interrupt(self, error: Exception) -> list[Event]:
        """Say that the source failed: every open call gets its verdict."""
        message = f"the source failed with {type(error).__name__}"
        return self.assembler.abort("truncated", message)

    def abort(self) -> bool:
        """Say that nobody wants to know the rest. False if there is none."""
        was_exhausted, self._exhausted = self._exhausted, True
        self.assembler.abort()
        return not was_exhausted

    def _take_bytes(self, chunk: bytes) -> list[Event]:
        if self._decoder is None:
            return self._take_first(chunk)
        if self._is_unsure and chunk:
            self._is_unsure = False
            self._lines = _are_lines(self._first, chunk)
        if self._lines:
            chunk = _ended(chunk, self._line_end)
        return self._decode(self._decoder, chunk)

    def _take_first(self, chunk: bytes) -> list[Event]:
        """Take what comes before it is known what it is: lines or pieces, and of which format."""
        if not self._first and not chunk.strip():
            return []  # nothing that begins like this begins with white space
        self._held.append(chunk)
        if not chunk:
            return []  # the next one will tell
        if not self._first or BYTE_ORDER_MARK.startswith(self._first):
            self._first += chunk
            if BYTE_ORDER_MARK.startswith(self._first):
                return []
            self._line_end = b"" if self._first.endswith((b"\n", b"\r")) else b"\n"
            if not _may_be_a_line(self._first):
                return self._begin()
            if not _is_event(self._first):
                return []
            # It is whole, so it need not wait; whether more such lines come, the next one tells.
            self._held = [_ended(self._first, self._line_end)]
            self._is_unsure = True
            return self._begin()
        self._lines = _may_be_a_line(self._first) and _are_lines(self._first, chunk)
        return self._begin()

    def _begin(self) -> list[Event]:
        """Choose a decoder by all that was held back, and give it that."""
        held, self._held = self._held, []
        if self._lines:
            held = [_ended(line, self._line_end) for line in held]
        chunk = b"".join(held)
        self._decoder = _decoder_for(chunk)
        return self._decode(self._decoder, chunk)

    def _decode(self, decoder: Decoder | RecordingDecoder, chunk: bytes) -> list[Event]:
        events: list[Event] = []
        frames: Sequence[Frame | Broken | Ended] = (
            decoder.feed(chunk) if self._any_frame else self._decode_first(decoder, chunk)
        )
        for frame in frames:
            self._any_frame = True
            if isinstance(frame, Frame):
                if frame.data or frame.failed:  # no data: it only keeps the connection open
                    events += self.assembler.feed(frame.data, frame.event)
            elif isinstance(frame, Broken):
                message = f"the stream breaks the rules of its format ({frame.reason})"
                events += self.assembler.break_off("broken_stream", message)
            else:
                events += self._end_recording(frame)
        return events

    def _decode_first(
        self, decoder: Decoder | RecordingDecoder, chunk: bytes
    ) -> Sequence[Frame | Broken | Ended]:
        """Remember how it begins. If that says that it is a recording, open it."""
        if isinstance(decoder, RecordingDecoder):
            unwrapped = decoder.feed(chunk)
        else:
            frames = decoder.feed(chunk)
            if not frames or isinstance(frames[0], Broken) or not is_recording(frames[0].data):
                self._first_bytes = (self._first_bytes + chunk)[:_SHOWN]
                return frames
            self._decoder = decoder = RecordingDecoder(decoder, frames[0].data, _decoder_for)
            unwrapped = decoder.take(frames[1:])
        self._first_bytes = decoder.first_bytes[:_SHOWN]
        return unwrapped

    def _close_decoder(self) -> Sequence[Frame | Broken | Ended]:
        if self._decoder is None:
            return []
        frames = self._decoder.close()
        match frames:
            case [Frame(first)] if not self._any_frame and is_recording(first):
                return [Ended("cut", NOT_ENDED)]  # in its first line
        return frames

    def _end_recording(self, end: Ended) -> list[Event]:
        """Say what would have been said then: nothing that was open has come to its end."""
        self._any_frame = True
        if self.assembler.stopped:
            return []  # who stops reading does not hear of the end
        verdict: InvalidVerdict = "aborted" if end.code == "aborted" else "truncated"
        events = self.assembler.abort(verdict, end.message)
        return [*events, StreamFailed(end.code, end.message, retryable=end.code == "cut")]


def _decoder_for(chunk: bytes) -> Decoder:
    if chunk[0] == 0:  # the length of a message, which is less than 16 MiB
        return AwsEventStreamDecoder()
    start = chunk.removeprefix(BYTE_ORDER_MARK).lstrip()
    return JsonTextDecoder() if start.startswith((b"{", b"[")) else SseDecoder()


def _may_be_a_line(chunk: bytes) -> bool:
    """Say whether this looks like one line; of a comment, a colon alone is not enough."""
    line = chunk.removeprefix(BYTE_ORDER_MARK).removesuffix(b"\n").removesuffix(b"\r")
    begins = line.startswith((*_FIELDS, b"{", b"[")) or (len(line) > 1 and line.startswith(b":"))
    return begins and b"\n" not in line and b"\r" not in line


def _are_lines(first: bytes, second: bytes) -> bool:
    """Tell lines from a text that happens to be cut where one could end."""
    first = first.removeprefix(BYTE_ORDER_MARK)
    if first.strip() in (b"[", b"[{", b"{") and second.startswith(b" "):
        return True  # of a document that is spread over lines, of which the ends are lost
    if first.startswith((b"{", b"[")):
        return second.startswith((b"{", b"[")) and _is_whole(first)
    if not second.startswith((*_FIELDS, b":")):
        return False
    data = first.removeprefix(b"data:")
    return data == first or not data.strip() or _is_whole(data)


def _is_event(line: bytes) -> bool:
    """Say whether nothing is missing of an event but its line end."""
    line = line.removeprefix(BYTE_ORDER_MARK)
    data = line.removeprefix(b"data:").strip()
    return data.startswith(b"{") and _is_whole(data)


def _ended(line: bytes, end: bytes) -> bytes:
    """Give a line its end, and an event its blank line: some who read lines leave those out."""
    start = line.removeprefix(BYTE_ORDER_MARK)
    is_event = start.startswith(b"data:") and (end or line.endswith(b"\n"))
    if is_event and _is_whole(start.removeprefix(b"data:")):
        end += b"\n"
    return line + end


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")  # of bytes that were no UTF-8, those bytes
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _is_whole(data: bytes) -> bool:
    return data.strip() == b"[DONE]" or is_json(data)
