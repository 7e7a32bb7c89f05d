"""One of two processes that want to go on with the same runs: resumes each at a given moment.

Run as ``python -m tests.surviving.racing DIRECTORY WHERE [PREFIX]``. A line is the id of a run, the
moment, and the calls that it approves of, if any; what it says to each is how that went.
"""

import asyncio
import sys
import time
from pathlib import Path

from argstream.agent import Agent
from argstream.decisions import Approve
from argstream.errors import RunTaken, UsageError
from argstream.log import Store
from tests.surviving.outside import Outside
from tests.surviving.parts import Place
from tests.surviving.points import Points
from tests.surviving.stories import letters, model, tools


def racing_agent(outside: Outside, store: Store) -> Agent:
    """An agent whose model takes no time."""
    return Agent(model(letters, outside, delay=0), tools(outside, Points()), store=store)


async def main(directory: str, *where: str) -> None:
    agent = racing_agent(Outside(Path(directory)), Place(*where).open())
    print("ready", flush=True)  # noqa: T201 - that is how it speaks
    while line := await asyncio.to_thread(sys.stdin.readline):
        run_id, moment, *calls = line.split()
        while time.time() < float(moment):  # sleeping would not end at the same time in both
            pass
        try:
            result = await agent.resume(run_id, {call_id: Approve() for call_id in calls})
        except (RunTaken, UsageError) as error:
            print(type(error).__name__, flush=True)  # noqa: T201 - as above
        else:
            print(result.outcome, flush=True)  # noqa: T201 - as above


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
