"""An output item of a Realtime response, from its first word to its last."""

import json
from typing import Any, Final

from argstream.adapters._openai_items import (
    CALLS,
    CUT,
    call_id_of,
    call_input,
    call_kind,
    call_name,
    id_of,
    item_done,
    kept_of_call,
    result,
)
from argstream.adapters._payloads import text_of
from argstream.deltas import (
    ArgumentText,
    CallClosed,
    CallOpened,
    CallResult,
    Delta,
    Opaque,
    ThinkingOpened,
)

__all__ = ["RealtimeItem"]

_CUT: Final = CUT - {"in_progress"}


class RealtimeItem:
    """What is known of an item while its response is open."""

    __slots__ = (
        "_has_failed",
        "_is_closed",
        "_is_done",
        "_pieces",
        "call_id",
        "key",
        "response_id",
        "text",
        "type",
    )

    def __init__(self, key: str, response_id: str) -> None:
        self.key = key
        self.response_id = response_id
        self.type = ""
        """Empty until it is said what it is."""
        self.call_id = ""
        self.text: str | None = None
        """The whole input of a call, if it was said before the item is done."""
        self._pieces: list[str] = []  # that came before it was said what they are of
        self._is_done = False
        self._is_closed = False  # of a call
        self._has_failed = False  # of a call that the provider ran

    @property
    def is_of_nothing(self) -> bool:
        """Whether arguments came, and nobody has said what they are of."""
        return not self.type and bool(self._pieces or self.text)

    def begin(self, item: dict[str, Any]) -> list[Delta]:
        """Take its first form, which says what it is; once."""
        if self.type:
            return []
        self.type = text_of(item.get("type")) or "unknown"
        if self.type == "reasoning":
            return [ThinkingOpened(self.key)]
        if self.type not in CALLS:
            return []
        given = call_input(item)
        if isinstance(given, str) and given:
            self.text = given
        self.call_id = call_id_of(item)
        pieces, self._pieces = self._pieces, []
        return [
            CallOpened(self.key, self.call_id, call_name(item), call_kind(item)),
            *(ArgumentText(self.key, piece) for piece in pieces),
        ]

    def grow(self, piece: str) -> list[Delta]:
        """Take a piece of a call's arguments."""
        if self.type:
            return [ArgumentText(self.key, piece)] if piece else []
        self._pieces.append(piece)
        return []

    def end(self, item: dict[str, Any]) -> list[Delta]:
        """Take its last form."""
        deltas = self.begin(item)
        if self.type in CALLS:
            return deltas + self._end_call(item)
        if self._is_done:
            return deltas
        self._is_done = True
        return deltas + item_done(self.key, self.type, item)

    def close(self, *, is_cut: bool = False) -> list[Delta]:
        """Say that a call is over, once."""
        if self._is_closed or self.type not in CALLS:
            return []
        self._is_closed = True
        return [CallClosed(self.key, self.text, is_cut)]

    def was_run(self, *, failed: bool) -> list[Delta]:
        """Take note that the provider has run a call: so it was whole."""
        self._has_failed = failed
        return self.close()

    def _end_call(self, item: dict[str, Any]) -> list[Delta]:
        given = call_input(item)
        if isinstance(given, dict):
            given = json.dumps(given, ensure_ascii=False)
        self.text = given if isinstance(given, str) and given else self.text
        deltas: list[Delta] = []
        if not self._is_done:
            self._is_done = True
            deltas.append(Opaque(self.key, kept_of_call(item)))
        results = result(item)
        if not results and self._has_failed:
            results = [CallResult(id_of(item) or self.key, "failed", failed=True)]
        status = text_of(item.get("status"))
        if status == "completed" or results:
            return [*deltas, *self.close(), *results]
        if status in _CUT:
            deltas += self.close(is_cut=True)
        return deltas  # else the end of the response decides
