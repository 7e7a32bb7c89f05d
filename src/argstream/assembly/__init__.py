"""Deltas → events, and verdicts: one parser for each call that is open."""

from argstream.assembly._quirks import Quirk
from argstream.assembly.assembler import Assembler, StopOn
from argstream.assembly.call import Call, CallVerdict, Reinterpretation
from argstream.assembly.numbering import Numbering

__all__ = [
    "Assembler",
    "Call",
    "CallVerdict",
    "Numbering",
    "Quirk",
    "Reinterpretation",
    "StopOn",
]
