"""The UI message stream of the AI SDK (npm ``ai`` 6 and 7): out, and what its clients send in."""

from argstream.protocols.ai_sdk.encoder import HEADERS, AiSdkEncoder
from argstream.protocols.ai_sdk.requests import (
    Answer,
    Answered,
    ChatBody,
    Said,
    history_before,
    meant,
)

__all__ = [
    "HEADERS",
    "AiSdkEncoder",
    "Answer",
    "Answered",
    "ChatBody",
    "Said",
    "history_before",
    "meant",
]
