"""AG-UI, the protocol of agents and front ends: versions 1.0 and 0.0.59, out and in."""

from argstream.protocols.ag_ui.encoder import AgUiEncoder
from argstream.protocols.ag_ui.inputs import (
    Answers,
    RunAgentInput,
    answers_of,
    known_of,
    prompt_of,
    version_of,
)
from argstream.protocols.ag_ui.wire import Version

__all__ = [
    "AgUiEncoder",
    "Answers",
    "RunAgentInput",
    "Version",
    "answers_of",
    "known_of",
    "prompt_of",
    "version_of",
]
