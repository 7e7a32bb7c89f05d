"""Runs in other people's formats, and in ours for the wire: pure, events in and bytes out.

``native`` and ``converse`` are our own, ``ai_sdk`` and ``ag_ui`` those of front ends.
"""

from argstream.protocols._base import CloseReason, Encoder, Written

__all__ = ["CloseReason", "Encoder", "Written"]
