"""Runs of agents that run their tools themselves, in the same log as our own."""

from argstream.agent.observing._run import ObservedRun
from argstream.agent.observing.observer import Observer, observe

__all__ = ["ObservedRun", "Observer", "observe"]
