"""What ``argstream serve`` says when it listens: where, and what to try next."""

from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from argstream.sanitise import visible_line

__all__ = ["Greeting"]

_MODELS: Final = {
    "script": "Its model is a script: no key is needed, and --model names a real one.",
    "claude-agent": "It is Claude Code, which asks before it changes anything.",
}
_EVERYWHERE: Final = ("", "0.0.0.0", "::")  # noqa: S104 - to know it by
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
    """Where the runs are kept, as it can be shown."""
    has_token: bool
    host: str
    """Where it listens."""
    hosts: tuple[str, ...] | None
    """By which names it may be asked for; None is any."""
    has_page: bool = True

    def show(self, url: str) -> None:
        """Say it, of a server at this address."""
        print(self.text(url), flush=True)  # noqa: T201 - this is what it is for

    def text(self, url: str) -> str:
        """Give the words; no token is in them, and no password."""
        model = _MODELS.get(self.model, f"Its model is {visible_line(self.model)}.")
        token = '-H "authorization: Bearer $ARGSTREAM_TOKEN" ' if self.has_token else ""
        sign_in = ", where you sign in with the token" if self.has_token else ""
        page = f": open it in a browser{sign_in}" if self.has_page else ""
        paths = "\n".join(f"  {path:29}{what}" for path, what in _PATHS)
        return (
            f"An agent at {url}, until Ctrl-C{page}. {model} Its runs are kept in {self.place}.\n"
            f"{self._others(url)}\n"
            f"  curl -N {url}/api/converse -H 'content-type: application/json' {token}"
            """-d '{"message": "Hello"}'\n\n"""
            f"{paths}\n"
        )

    def _others(self, url: str) -> str:
        """Say by which names others can reach it; nothing if they cannot."""
        if self.host == "localhost" or _is_loopback(self.host):
            return ""
        names = [name for name in self.hosts or () if name not in _EVERYWHERE]
        by = f"as {visible_line(', '.join(names))}" if names else "by any name of this machine"
        return f"Others can reach it on port {urlsplit(url).port}, {by}, if they know the token.\n"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name: what it stands for is not known here
        return False
