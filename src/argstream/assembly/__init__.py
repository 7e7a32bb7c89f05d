"""Deltas → events, and verdicts: one parser for each call that is open."""

from argstream.assembly._assembler import Assembler, Numbering
from argstream.assembly._call import Call, CallVerdict, Reinterpretation, StopOn
from argstream.assembly._text_repair import Quirk

__all__ = [
    "Assembler",
    "Call",
    "CallVerdict",
    "Numbering",
    "Quirk",
    "Reinterpretation",
    "StopOn",
]
