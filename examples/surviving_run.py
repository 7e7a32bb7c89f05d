"""A run that outlives its program: it waits for a decision in a file, and goes on tomorrow.

::

    python examples/surviving_run.py begin            # writes to argstream.db, and ends
    argstream runs                                    # what is there
    python examples/surviving_run.py yes              # another program decides, and goes on

Needs no key: the model is a script. If the program was killed, even by ``kill -9``, ``yes`` resumes
the run. A tool that had started is not run again.
"""

import asyncio
import sys
from contextlib import aclosing

from argstream import (
    Agent,
    Approve,
    Deny,
    ModelRequest,
    RunResult,
    ScriptedModel,
    open_store,
    tool,
)
from argstream.history import ResultPart
from argstream.models import CallTool, Reply
from argstream.sanitise import visible_line


def answer(request: ModelRequest) -> Reply:
    """Answer what was asked, whoever asks: another program may have asked before."""
    if any(isinstance(part, ResultPart) for part in request.messages[-1].parts):
        return Reply("The release is out.")
    return Reply("I publish it.", CallTool("publish", {"version": "2.0"}))


@tool(requires_confirmation=True)
def publish(version: str) -> str:
    """Publish a release."""
    print(f"  (version {visible_line(version)} is published, this once)")
    return f"published {version}"


def show(result: RunResult) -> None:
    """Say how far a run has come."""
    for request in result.pending:
        print(f"{request.name} waits for a decision: {visible_line(str(request.arguments))}")
    if not result.is_paused:
        print(visible_line(result.text))


async def main(said: str) -> int:
    """Begin a run, or decide on those that wait."""
    async with aclosing(open_store("argstream.db")) as store:
        agent = Agent(ScriptedModel(answer, repeat=True), [publish], store=store)
        if said == "begin":
            show(await agent.run_async("Release version 2.0."))
            return 0
        decision = Approve() if said == "yes" else Deny("the user said no")
        for run in await store.runs():
            if not run.is_over:  # it has paused; or its program was killed, just now perhaps
                decisions = dict.fromkeys(run.pending, decision)
                show(await agent.resume(run.run_id, decisions, wait=20))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "begin")))
