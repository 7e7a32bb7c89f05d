"""Encoders that write runs as bytes for user interfaces. They perform no I/O.

``native`` and ``converse`` are formats of argstream, ``ai_sdk`` and ``ag_ui`` those of front ends.
"""

from argstream.protocols._base import CloseReason, Encoder, Written

__all__ = ["CloseReason", "Encoder", "Written"]
