"""The neutral feed: the items of ``argstream.feed`` → deltas."""

from msgspec.structs import astuple

from argstream import feed as items
from argstream.errors import UsageError
from argstream.providers import _deltas as d
from argstream.providers._payloads import UnreadableError, json_text, json_value
from argstream.providers._stop_reasons import ending_of


class FeedDecoder(d.ProviderDecoder):
    """Items of a feed → deltas. The key of a call is its ID."""

    protocol = "feed"

    def __init__(self) -> None:
        self._is_open = False  # whether a turn is open
        self._calls: set[str] = set()  # of the open turn
        self._blocks = d.Blocks()

    def feed(self, payload: object, event: str = "") -> list[d.Delta]:
        """Return the deltas of one item. Raise ``UsageError`` if it is not one."""
        match payload:
            case items.CallText(id_, text):
                self._check(id_, "text")
                return [d.ArgumentText(id_, text)]
            case items.Text(text):
                return [*self._begin("text"), d.TextPiece(self._blocks.key, text)]
            case items.Thinking(text):
                return [*self._begin("thinking"), d.ThinkingPiece(self._blocks.key, text)]
            case items.CallStarted(id_, name, kind):
                self._calls.add(id_)
                return [*self._begin("call"), d.CallOpened(id_, id_, name, kind)]
            case items.CallClosed(id_, arguments):
                self._check(id_, "a close")
                whole = json_text(arguments) if isinstance(arguments, dict) else arguments
                return [d.CallClosed(id_, whole)]
            case items.CallResult(id_, result, failed):
                return [d.CallResult(id_, json_value(result), failed)]
            case items.TurnEnded(stop, usage):
                deltas = [*self._begin("call"), d.UsageReported(d.Tokens(*astuple(usage)))]
                self._is_open = False
                self._calls.clear()
                return [*deltas, d.TurnEnded(stop, ending_of(stop)), d.TurnClosed()]
        raise UsageError(
            f"the feed contains an item of type {type(payload).__name__}. "
            "Items of argstream.feed cannot be mixed with others"
        )

    def _begin(self, kind: str) -> list[d.Delta]:
        """Open the turn if necessary, and a new block unless the last one has this kind."""
        deltas: list[d.Delta] = [] if self._is_open else [d.TurnOpened()]
        self._is_open = True
        self._blocks.key_for(kind, deltas)
        return deltas

    def _check(self, id_: str, what: str) -> None:
        if id_ not in self._calls:
            message = f"{what} for the call {id_!r}, which has not started in this turn"
            raise UnreadableError(message)
