"""What there is to see of events: lines that are final, and a short tail that is not."""

from argstream.terminal.scene.scene import Scene

__all__ = ["Scene"]
