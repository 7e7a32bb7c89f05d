"""Models: a history → a request, over HTTP → what the provider sends."""

from argstream.clients.request import Model, ModelRequest, ModelSettings, OfferedTool

__all__ = ["Model", "ModelRequest", "ModelSettings", "OfferedTool"]
