"""What ``argstream serve`` says when it listens: where, and what to try next."""

from typing import Final, NamedTuple

from argstream.sanitise import visible_line

__all__ = ["Greeting"]

_MODELS: Final = {
    "script": "Its model is a script: no key is needed, and --model names a real one.",
    "claude-agent": "It is Claude Code, which asks before it changes anything.",
}
_PATHS: Final = (
    ("POST /api/converse", "one answer, as a stream of small objects"),
    ("POST /api/chat", "for useChat of the AI SDK"),
    ("POST /api/ag-ui", "for HttpAgent of AG-UI"),
    ("POST /api/runs", "a run, to be followed at GET /api/runs/ID/events"),
    ("POST /api/runs/ID/decisions", "approve or deny what it asks"),
)


class Greeting(NamedTuple):
    """What there is to say."""

    model: str
    place: str
    """Where the runs are kept."""
    has_token: bool

    def show(self, url: str) -> None:
        """Say it, of a server at this address."""
        print(self.text(url), flush=True)  # noqa: T201 - this is what it is for

    def text(self, url: str) -> str:
        """Give the words; no token is in them, and no password."""
        model = _MODELS.get(self.model, f"Its model is {visible_line(self.model)}.")
        place = "Redis" if "@" in self.place else visible_line(self.place)
        token = '-H "authorization: Bearer $ARGSTREAM_TOKEN" ' if self.has_token else ""
        paths = "\n".join(f"  {path:29}{what}" for path, what in _PATHS)
        return (
            f"An agent at {url}, until Ctrl-C. {model} Its runs are kept in {place}.\n\n"
            f"  curl -N {url}/api/converse -H 'content-type: application/json' {token}"
            """-d '{"message": "Hello"}'\n\n"""
            f"{paths}\n"
        )
