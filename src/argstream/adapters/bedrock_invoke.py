"""Claude on Bedrock's InvokeModelWithResponseStream: Anthropic's payloads, in base64."""

import base64
import binascii

from msgspec import Struct

from argstream.adapters._payloads import PayloadReader, UnreadableError
from argstream.adapters.anthropic import AnthropicAdapter
from argstream.deltas import Delta, ProviderFailed

__all__ = ["BedrockInvokeAdapter"]

_RETRYABLE = {
    "InternalServerError",
    "internalServerException",
    "modelTimeoutException",
    "serviceUnavailableException",
    "throttlingException",
}


class _Chunk(Struct, gc=False):
    """An event's payload; boto3 puts another object around it, with the bytes decoded."""

    bytes: str | None = None
    message: str | None = None


_read = PayloadReader(_Chunk)


class BedrockInvokeAdapter:
    """Payloads of an event stream that carries Claude → deltas."""

    protocol = "bedrock-invoke"

    def __init__(self) -> None:
        self._inner = AnthropicAdapter()

    def feed(self, payload: object, event: str = "") -> list[Delta]:
        """Take one payload of the event stream, or an event of boto3."""
        if isinstance(payload, dict) and isinstance(payload.get("chunk"), dict):
            return self._inner.feed(payload["chunk"].get("bytes") or b"{}")
        chunk = _read(payload or b"{}")  # an error of the connection has no payload
        if chunk.bytes is None:
            if event.endswith(("Exception", "Error")):
                return [ProviderFailed(event, chunk.message or event, event in _RETRYABLE)]
            return []
        try:
            inner = base64.b64decode(chunk.bytes, validate=True)
        except binascii.Error as error:
            raise UnreadableError(f"no base64: {error}") from error
        return self._inner.feed(inner)

    def interrupt(self) -> list[Delta]:
        """Say that a payload was lost."""
        return self._inner.interrupt()

    def close(self) -> list[Delta]:
        """Say that nothing more comes."""
        return self._inner.close()
