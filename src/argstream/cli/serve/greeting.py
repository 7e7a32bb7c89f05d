"""What ``argstream serve`` says when it listens: where, and what to try next."""

from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from argstream.sanitise import visible_line

__all__ = ["Greeting"]

_MODELS: Final = {
    "script": "The model is a script that needs no API key. Use --model to choose a real one.",
    "claude-agent": "The model is Claude Code, which asks before it changes anything.",
}
_NO_TOKEN: Final = (
    "No token is required: any local user or process that can reach the port can start runs and "
    "approve commands.\n"
)
_EVERYWHERE: Final = ("", "0.0.0.0", "::")  # noqa: S104 - to know it by
_PATHS: Final = (
    ("POST /api/converse", "one answer, as a stream of small objects"),
    ("POST /api/chat", "for useChat of the AI SDK"),
    ("POST /api/ag-ui", "for HttpAgent of AG-UI"),
    ("POST /api/runs", "a run, to be followed at GET /api/runs/ID/events"),
    ("POST /api/runs/ID/decisions", "approve or deny what it asks"),
)


class Greeting(NamedTuple):
    """The text, and what it depends on."""

    model: str
    place: str
    """Where the runs are kept, without passwords."""
    host: str
    """Where it listens."""
    hosts: tuple[str, ...] | None
    """By which names it may be asked for; None is any."""
    has_page: bool = True
    has_token: bool = True
    made_token: str = ""
    """The token that this server made; "" if the user chose one, which is not printed."""
    token_file: str = ""

    def show(self, url: str) -> None:
        """Say it, of a server at this address."""
        print(self.text(url), flush=True)  # noqa: T201 - this is what it is for

    def text(self, url: str) -> str:
        """Return the text for a server at this address."""
        model = _MODELS.get(self.model, f"The model is {visible_line(self.model)}.")
        kept = f", the access token in {self.token_file}" if self.token_file else ""
        paths = "\n".join(f"  {path:29}{what}" for path, what in _PATHS)
        return (
            f"Serving at {url} (press Ctrl-C to stop).\n"
            f"{model}\n"
            f"Runs are kept in {self.place}{kept}.\n"
            f"{'' if self.has_token else _NO_TOKEN}"
            f"{self._others(url)}\n"
            f"{self._page(url)}"
            f"  curl -N {url}/api/converse {self._authorization()}-H 'content-type: "
            """application/json' -d '{"message": "Hello"}'\n\n"""
            f"{paths}\n"
        )

    def _page(self, url: str) -> str:
        """Return the line that names the address to open in a browser."""
        if not self.has_page:
            return ""
        if self.made_token:
            return f"  Open {url}/#token={self.made_token}\n\n"
        sign_in = " and sign in with the token" if self.has_token else ""
        return f"  Open {url}{sign_in}\n\n"

    def _authorization(self) -> str:
        """Return the option of curl that sends the token."""
        if not self.has_token:
            return ""
        if self.made_token:
            return f"-H 'authorization: Bearer {self.made_token}' "
        return '-H "authorization: Bearer $ARGSTREAM_TOKEN" '

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
