"""A server in its own process, for tests that end it. Its model sends a mail after an approval."""

import sys
from pathlib import Path

from argstream import Agent, ModelRequest, tool
from argstream.history import ResultPart
from argstream.models import CallTool, Reply, Say, ScriptedModel
from argstream.server import AgentServer, serve

WORDS = " ".join(f"word{number}" for number in range(50))


def answer(request: ModelRequest) -> Reply:
    """Answer by the messages alone, so that any process can continue."""
    results = [
        part
        for message in request.messages
        for part in message.parts
        if isinstance(part, ResultPart)
    ]
    if not results:
        return Reply(Say(WORDS), CallTool("send", {"to": "ada"}))
    return Reply(Say(f"{results[-1].result} {WORDS}"))


def main(store: str, effects: str, lease_seconds: float = 0.6) -> None:
    """Serve until the process ends. Sent mails are written to a file."""

    @tool(requires_confirmation=True)
    def send(to: str) -> str:
        """Send a mail."""
        with Path(effects).open("a") as file:
            file.write(f"{to}\n")
        return f"sent to {to}"

    model = ScriptedModel(answer, repeat=True, delay=0.01, piece_size=8)
    agent = Agent(model, [send], store=store, lease_seconds=lease_seconds)
    serve(AgentServer(agent, token=None, recovery_seconds=0.2), port=0, on_listening=_print_url)


def _print_url(url: str) -> None:
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(float, sys.argv[3:]))
