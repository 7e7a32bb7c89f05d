"""Ask a person before a mail is sent: approve, change, or deny. Needs no key.

The run pauses with all that a person must decide on, and goes on with the decisions. In a terminal
this is the better way: the question stands alone, and Ctrl-C ends it. Where nobody is, it denies;
with ``--piped``, answers are read from a pipe. A scripted model plays along; for a real one,
``Agent("anthropic:…", [send_mail])`` is all.
"""

import sys

from argstream import Agent, Approve, Deny, RunResult, ScriptedModel, tool
from argstream.events import ApprovalRequested
from argstream.models import CallTool, Reply
from argstream.sanitise import visible_line

MODEL = ScriptedModel(
    Reply(
        "I tell both.",
        CallTool("send_mail", {"to": "ada@example.org", "text": "We are late."}),
        CallTool("send_mail", {"to": "bob@example.org", "text": "We are very late, sorry!"}),
    ),
    lambda request: Reply(f"Done: {request.messages[-1].parts[-1].result}"),  # type: ignore[union-attr]  # a result
)


@tool(requires_confirmation=True)
async def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    print(f"  (a mail goes to {visible_line(to)}: {visible_line(text)})")
    return f"sent to {to}"


def ask(request: ApprovalRequested) -> Approve | Deny:
    """Show all of a call, and have a person decide."""
    print(f"{request.name} asks to run, because {request.reason}:")
    for name, value in request.arguments.items():
        print(f"  {name}: {visible_line(str(value))}")  # nothing in it can act on the terminal
    if not sys.stdin.isatty() and "--piped" not in sys.argv:
        return Deny("nobody is here to decide")
    match input("[y]es, [n]o, or another text: ").strip():
        case "y":
            return Approve(digest=request.digest)
        case "n" | "":
            return Deny("the user said no")
        case text:
            return Approve(arguments={**request.arguments, "text": text})


def main() -> int:
    """Run a prompt, and decide whenever it pauses."""
    agent = Agent(MODEL, [send_mail])
    result: RunResult = agent.run("Tell Ada and Bob that we are late.")
    while result.is_paused:
        decisions = {request.call_id: ask(request) for request in result.pending}
        result = agent.resume(result, decisions).wait()
    print(visible_line(result.text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
