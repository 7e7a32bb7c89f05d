"""All that is measured of an agent: what it adds to the stream, and what a run costs by itself."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

from agent_workloads import AGENT, STREAM, SYNC_AGENT, SYNC_STREAM, Turn, Way, runs_of, ways
from argstream.agent import Agent
from argstream.clients import ScriptedModel
from readers import ARGSTREAM
from results import versions
from stopwatch import Effort, Job, Measurement, find, take_turns

BASES = {AGENT: STREAM, SYNC_AGENT: SYNC_STREAM}
"""What each way with an agent is compared with."""
ONE_WORD = "a run of one word"
IN_TURN, AT_ONCE = "one after the other", "200 at once"

_RUNS = 200
_WHOLE_READING = 25_000
"""Deltas of a reading, at least: short turns are read more than once."""
_FULL = Effort(rounds=7, reading_seconds=0, total_seconds=10.0)
_QUICK = Effort(rounds=1, reading_seconds=0, total_seconds=1.0)


@dataclass(frozen=True)
class AgentResults:
    """What was found out about an agent."""

    versions: dict[str, str]
    turns: list[Turn]
    measurements: list[Measurement]
    """Per delta."""
    runs: list[Measurement]
    """Per run."""

    def find(self, way: str, turn: Turn) -> Measurement | None:
        """Look up one figure."""
        return find(self.measurements, way, turn.name)

    def ratio(self, way: str, turn: Turn) -> float | None:
        """Divide the cost with an agent by that of the stream alone."""
        ours, base = self.find(way, turn), self.find(BASES[way], turn)
        return ours.microseconds / base.microseconds if ours and base else None


def gather_agent(*, quick: bool = False) -> AgentResults:
    """Measure all of it, after a look whether everything comes to its end."""
    effort = _QUICK if quick else _FULL
    turns = [Turn.of_call(10_000), Turn.of_call(100_000), Turn.of_text(100_000)]
    jobs = [job for turn in turns for job in _jobs(turn)]
    return AgentResults(
        versions([ARGSTREAM.package, "anyio", "pydantic"]),
        turns,
        take_turns(jobs, effort, median),
        take_turns(_run_jobs(), effort, median),
    )


def _jobs(turn: Turn) -> list[Job]:
    """Put the stream alone and what is compared with it next to each other."""
    times = max(1, round(_WHOLE_READING / turn.deltas))
    jobs = []
    for name, way in ways(turn).items():
        _demand_right(name, way, turn)
        jobs.append(Job(name, turn.name, partial(_each, way.seconds, times, turn.deltas)))
    return jobs


def _run_jobs() -> list[Job]:
    way = runs_of(Agent(ScriptedModel("Hello.", repeat=True)))
    return [
        Job(IN_TURN, ONE_WORD, partial(_each, way.seconds, _RUNS)),
        Job(AT_ONCE, ONE_WORD, partial(_each, way.seconds_at_once, _RUNS)),
    ]


def _each(seconds: Callable[[int], float], times: int, deltas: int = 1) -> float:
    """Take one reading: seconds of CPU time per delta, or per run."""
    return seconds(times) / (times * deltas)


def _demand_right(name: str, way: Way, turn: Turn) -> None:
    """Refuse to measure what is wrong."""
    events = way.events()
    if not turn.is_in(events) or (name in BASES and not turn.is_done_in(events)):
        sys.exit(f"{name} came to something else than was sent: {turn.name}")
