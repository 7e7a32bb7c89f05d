"""What the two APIs of Bedrock share: the exceptions of an AWS event stream."""

from typing import Any, Final

from argstream.adapters._payloads import text_of
from argstream.deltas import ProviderFailed

__all__ = ["failure", "is_failure"]

# In small letters: an event stream and the body of a response write their first one differently.
_RETRYABLE: Final = {
    "internalservererror",
    "internalserverexception",
    "modelnotreadyexception",
    "modelstreamerrorexception",
    "modeltimeoutexception",
    "serviceunavailableexception",
    "throttlingexception",
}


def is_failure(name: str) -> bool:
    """Say whether an event of this name is an exception, or an error of the connection."""
    return name.endswith(("Exception", "Error"))


def failure(name: str, body: dict[str, Any]) -> ProviderFailed:
    """Give the failure that an exception is. One of the connection has an empty body."""
    message = text_of(body.get("message")) or text_of(body.get("originalMessage")) or name
    return ProviderFailed(name, message, name.lower() in _RETRYABLE)
