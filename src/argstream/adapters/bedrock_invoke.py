"""Bedrock's InvokeModelWithResponseStream: a model's own payloads, in base64.

Those of Claude are Anthropic's. Those of Nova are the events of ConverseStream.
"""

import base64
import binascii

from msgspec import Struct

from argstream.adapters._aws import failure, is_failure
from argstream.adapters._payloads import PayloadReader, UnreadableError
from argstream.adapters.anthropic import AnthropicAdapter
from argstream.adapters.bedrock import BedrockAdapter
from argstream.deltas import Delta

__all__ = ["BedrockInvokeAdapter"]


class _Chunk(Struct, gc=False):
    """An event's payload; boto3 puts another object around it, with the bytes decoded."""

    bytes: str | None = None
    message: str | None = None


class _Head(Struct, gc=False):
    """What tells the payloads of models apart: Anthropic's have a type."""

    type: str | None = None


_read = PayloadReader(_Chunk)
_read_head = PayloadReader(_Head)


class BedrockInvokeAdapter:
    """Payloads of an event stream that carries a model's own → deltas."""

    protocol = "bedrock-invoke"

    def __init__(self) -> None:
        self._inner: AnthropicAdapter | BedrockAdapter | None = None  # until a payload tells

    def feed(self, payload: object, event: str = "") -> list[Delta]:
        """Take one payload of the event stream, or an event of boto3."""
        if isinstance(payload, dict) and isinstance(payload.get("chunk"), dict):
            data = payload["chunk"].get("bytes")
            return self._feed_inner(data) if data else []
        chunk = _read(payload or b"{}")  # an error of the connection has no payload
        if chunk.bytes is None:
            return [failure(event, {"message": chunk.message})] if is_failure(event) else []
        try:
            inner = base64.b64decode(chunk.bytes, validate=True)
        except binascii.Error as error:
            raise UnreadableError(f"no base64: {error}") from error
        return self._feed_inner(inner)

    def interrupt(self) -> list[Delta]:
        """Say that a payload was lost."""
        return [] if self._inner is None else self._inner.interrupt()

    def close(self) -> list[Delta]:
        """Say that nothing more comes."""
        return [] if self._inner is None else self._inner.close()

    def _feed_inner(self, payload: object) -> list[Delta]:
        if self._inner is None:
            has_type = _read_head(payload).type is not None
            self._inner = AnthropicAdapter() if has_type else BedrockAdapter()
        return self._inner.feed(payload)
