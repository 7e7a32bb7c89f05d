"""Payloads of one provider's stream → events: what source 002 calls the event builder.

Pure: nothing is read, nothing waits. Feed it payloads as they come and close it at the end; for the
whole way from bytes, an SDK's stream or an HTTP response there is ``stream()``.
"""

from collections.abc import Collection
from reprlib import Repr
from typing import get_args

from argstream.adapters import (
    AGENTS,
    Adapter,
    ClosesNothing,
    Feed,
    ProtocolName,
    UnreadableError,
    detect,
    detect_wrapping,
    explain_unsupported,
    make_adapter,
    payloads_in,
    unwrapping,
)
from argstream.assembly._builder import EventBuilder
from argstream.assembly._court import Court, StopOn
from argstream.assembly._quirks import Quirk, checked
from argstream.assembly._surrogates import mended
from argstream.assembly.call import Call
from argstream.assembly.numbering import Numbering
from argstream.deltas import Delta
from argstream.errors import UsageError
from argstream.events import ArgumentDelta, Event, InvalidVerdict, StreamFailed, Usage
from argstream.jsonstream import Limits
from argstream.judging import Judge

__all__ = ["Assembler", "StopOn"]

_MAX_UNREAD = 100  # who knows none of so many knows none of the rest, which may be endless
_short = Repr()
_short.maxstring = _short.maxother = 200

# Names of events that only keep a connection open, and whose data may be anything.
_HEARTBEATS = {"ping", "keepalive", "keep-alive", "heartbeat"}


class Assembler:
    r"""Turns the payloads of one stream into events.

    >>> assembler = Assembler("openai-chat")
    >>> head = '{"choices":[{"delta":{"tool_calls":[{"index":0,'
    >>> assembler.feed(head + '"id":"c1","function":{"name":"add","arguments":""}}]}}]}')
    [ToolCallStarted(call_id='c1', index=0, name='add', kind='function', parent_id=None)]
    >>> for event in assembler.feed(head + '"function":{"arguments":"{\\"a\\":1"}}]}}]}'):
    ...     print(event.type)
    tool_args_delta
    argument_started
    >>> [call.verdict for call in assembler.calls]
    ['open']
    """

    def __init__(  # noqa: PLR0913 - by name, and rarely
        self,
        protocol: ProtocolName = "auto",
        *,
        quirks: Collection[Quirk] = (),
        after: Numbering | None = None,
        limits: Limits | None = None,
        judge: Judge | None = None,
        stop_on: StopOn = "denied",
    ) -> None:
        """Read this protocol, or find out which one it is from the first payloads.

        ``quirks`` names what is known of a server that writes arguments in a way of its own, so
        that they are right while they come, not only at the end. ``after`` is the ``numbering`` of
        the turn before, if blocks, calls and ids shall be numbered on. Call IDs are then
        unique in the conversation: a repeated ID is replaced.

        ``judge`` looks at the calls while they are written: see ``make_judge``. ``stop_on``
        says after which refusals nothing more is read, once no other call is being written.
        """
        is_told = protocol not in ("auto", "argstream")
        self._court = Court(_checked_judge(judge), _checked_stop(stop_on))
        self._adapter: Adapter | None = self._use(protocol) if is_told else None
        self._read: Feed = self._read_named  # the adapter's feed, once it is known
        self._unread: list[tuple[object, str]] = []  # until it is known what they are
        self._builder = EventBuilder(after, limits, checked(quirks), self._court)
        self.closed = False
        """Whether it has been closed or aborted."""
        self.stopped = False
        """Whether nothing more will be read, so the source should be closed.

        A call was refused, or the stream is a format that cannot be read.
        """

    @property
    def protocol(self) -> str:
        """What is being read; ``auto`` until that is known."""
        return "auto" if self._adapter is None else self._adapter.protocol

    @property
    def calls(self) -> list[Call]:
        """All calls so far, in order."""
        return list(self._builder.calls)

    @property
    def numbering(self) -> Numbering:
        """How much has come: what the next turn goes on after."""
        return self._builder.numbering

    @property
    def usage(self) -> Usage:
        """The usage that the provider has reported so far, of all turns."""
        return self._builder.usage

    def calls_from(self, start: int) -> list[Call]:
        """Give the calls so far, without the first ones: for who has seen those."""
        return self._builder.calls[start:]

    def feed(self, payload: object, event: str = "") -> list[Event]:
        """Take a payload (bytes, text, a dict, an SDK's object) and say what it means.

        ``event`` is the name that the wire gave it, where it has one. Never raises for bad input.
        After the end, further payloads change nothing.
        """
        events: list[Event] = []
        if self.closed:
            return events
        adapter = self._adapter or self._find_adapter(payload, event, events)
        if adapter is not None:
            try:
                self._builder.take(self._read(payload, event), events)
            except RecursionError:
                self._lost(adapter, "a payload is nested too deeply to be read", events)
            except UnreadableError as error:
                if several := payloads_in(payload):
                    for one in several:
                        events += self.feed(one, event)
                elif event.lower() not in _HEARTBEATS:
                    self._lost(adapter, str(error), events)
            except Exception as error:  # noqa: BLE001 - invariant 9: no stream dies of a payload
                message = f"a payload of an unheard-of form ({type(error).__name__}: {error})"
                self._lost(adapter, message, events)
            if self._court.must_stop and not _is_mere_text(events):
                self._stop_if_idle(adapter, events)
        return events

    def break_off(self, code: str, message: str) -> list[Event]:
        """Say that nothing more can be read, and why: no call that is open can be complete."""
        events: list[Event] = []
        if not self.closed:
            self._builder.lost(code, message, events, is_end=True)
        return events

    def close(self) -> list[Event]:
        """Say that the stream is over: every call gets its verdict."""
        events: list[Event] = []
        if self.closed:
            return events
        self.closed = True
        if self._adapter is not None:
            self._builder.take(self._adapter.close(), events)
            self._builder.end(events)
        if self._builder.is_empty:
            events.append(self._nothing())
        return events

    def abort(
        self, verdict: InvalidVerdict = "aborted", message: str = "reading was stopped"
    ) -> list[Event]:
        """End every open call with this verdict, because nobody will read on."""
        events: list[Event] = []
        if not self.closed:
            self.closed = True
            self._builder.abort(verdict, message, events)
        return events

    def _stop_if_idle(self, adapter: Adapter, events: list[Event]) -> None:
        """Stop after a refusal that asks for it, as soon as no other call is being written."""
        if self.closed or not self._builder.is_worth_stopping():
            self._court.must_stop = False
            return
        over = adapter.over() if isinstance(adapter, ClosesNothing) else []
        if not self._builder.is_busy({delta.key for delta in over}):
            self._builder.take(over, events)
            self._builder.stop(events)
            self.closed = self.stopped = True

    def _lost(self, adapter: Adapter, message: str, events: list[Event]) -> None:
        self._builder.take(adapter.interrupt(), events)
        self._builder.lost("bad_payload", mended(message), events, is_end=False)

    def _use(self, protocol: str) -> Adapter:
        self._court.knows_all_tools = protocol not in AGENTS
        return make_adapter(protocol)

    def _find_adapter(self, payload: object, event: str, events: list[Event]) -> Adapter | None:
        """Detect the protocol, and first feed the payloads that came before it was known."""
        name = detect(payload, event)
        wrapping = detect_wrapping(payload) if name is None else None
        if wrapping is not None:
            name = wrapping.protocol
        if name is None:
            if (message := explain_unsupported(payload)) is not None:
                self._builder.lost("unknown_protocol", message, events, is_end=True)
                self.closed = self.stopped = True
            elif len(self._unread) < _MAX_UNREAD:
                self._unread.append((payload, event))
            return None
        adapter = self._adapter = self._use(name)
        self._read = adapter.feed if wrapping is None else unwrapping(adapter.feed, wrapping.field)
        for earlier in self._unread:
            events += self.feed(*earlier)
        self._unread = []
        return adapter

    def _read_named(self, payload: object, event: str) -> list[Delta]:
        """Read with the adapter that the caller named, until it is known if payloads are wrapped.

        What comes before the first payload, such as a framework's own events, does not tell.
        """
        adapter = self._adapter
        assert adapter is not None  # noqa: S101 - for mypy; detection replaces this method
        wrapping = detect_wrapping(payload)
        if wrapping is not None and wrapping.protocol == adapter.protocol:
            self._read = unwrapping(adapter.feed, wrapping.field)
            return self._read(payload, event)
        deltas = adapter.feed(payload, event)
        if deltas:
            self._read = adapter.feed
        return deltas

    def _nothing(self) -> StreamFailed:
        if self._unread:
            shown = _short.repr(self._unread[0][0])
            message = f"no protocol is known that begins like this: {shown}"
            return StreamFailed("unknown_protocol", message)
        return StreamFailed("empty", "the stream ended before a message began", retryable=True)


def _is_mere_text(events: list[Event]) -> bool:
    """Say whether nothing has come but a piece of a string: nobody has ended with that."""
    return bool(events) and type(events[-1]) is ArgumentDelta


def _checked_judge(judge: Judge | None) -> Judge | None:
    """Refuse a bare policy that can answer ``ask``: such a call would complete unnoticed."""
    if getattr(judge, "can_ask", False):
        raise UsageError(
            'the policy can answer "ask". Pass judge=make_judge(policy=policy, on_ask="deny") to '
            'reject such calls, or on_ask="report" to complete them with the answer in '
            "ToolArgsCompleted.policy_decision"
        )
    return judge


def _checked_stop(stop_on: StopOn) -> StopOn:
    if stop_on not in get_args(StopOn):
        raise UsageError(f"stop_on is one of {', '.join(get_args(StopOn))}, not {stop_on!r}")
    return stop_on
