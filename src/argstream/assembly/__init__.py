"""Turns deltas into events, and decides the verdict of each call."""

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
