"""axio, in the two ways that it can be used. It needs Python 3.12, so it stands apart."""

from axio.events import ToolFieldDelta
from axio.tool_args import ToolArgStream

from readers import Peer


class Events:
    """Feeds and drops the events: what axio itself costs. There is no value to look at."""

    value = None

    def __init__(self) -> None:
        self.feed = ToolArgStream("call_1").feed


class Fields:
    """Keeps the fields so far, which with axio is the business of its user."""

    def __init__(self) -> None:
        self._feed = ToolArgStream("call_1").feed
        self.value: dict[str, str] = {}

    def feed(self, chunk: str) -> None:
        """Append each delta to its field."""
        fields = self.value
        for event in self._feed(chunk):
            if isinstance(event, ToolFieldDelta):
                fields[event.key] = fields.get(event.key, "") + event.text


AXIO_PEERS = [
    Peer(
        "axio, events only",
        Events,
        package="axio",
        remark="`ToolArgStream`, its events dropped: no value so far. Top-level fields only; what "
        "is nested comes as raw JSON text.",
        shows_open_strings=False,
        gives_values=False,
    ),
    Peer(
        "axio, with the fields",
        Fields,
        package="axio",
        remark='The same, with `fields[key] = fields.get(key, "") + event.text`. What is nested '
        "is still raw text. This `+` copies the field so far.",
        gives_values=False,
    ),
]
