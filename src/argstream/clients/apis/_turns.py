"""A history as turns that alternate, in which each call has its result right after it.

All APIs want that, and say it in errors that are hard to read; so a history that a user has made is
checked here, once for all of them. Calls get the ids and names under which an API takes them.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from typing import Final, Literal, NamedTuple

from argstream.deltas import RUN_BY_PROVIDER
from argstream.errors import UsageError
from argstream.history import CallPart, Message, Part, ResultPart

__all__ = ["Answer", "CallIds", "Said", "Turn", "own_id", "turns_of", "wire_name"]

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]")


class Said(NamedTuple):
    """A part, and the message that it is of."""

    part: Part
    message: Message


class Answer(NamedTuple):
    """A call of the turn before, and what came of it."""

    call: CallPart
    wire_id: str
    result: ResultPart


class Turn(NamedTuple):
    """All that one side says before the other one does."""

    role: Literal["user", "assistant"]
    said: list[Said]
    """In order; of a user, all but the results of calls."""
    wire_ids: dict[str, str]
    """Of the assistant's calls that a client runs: the API's id for each of ours."""
    answers: list[Answer]
    """Of a user: the results of the calls of the turn before."""


class CallIds:
    """The ids under which calls go to an API: the provider's own, unless the API refuses it.

    Some servers count from 0 in each turn, and a call that another provider has made may have an id
    that is too long here. The same history always gives the same ids, also when it has grown.
    """

    def __init__(self, pattern: str, *, unique: bool) -> None:
        """Allow what matches all of a pattern; if unique, no id twice in the whole history."""
        self._pattern = re.compile(pattern)
        self._unique = unique
        self._taken: set[str] = set()

    def for_calls(self, calls: Iterable[CallPart]) -> dict[str, str]:
        """Give ids to the calls of a turn, by our own."""
        if not self._unique:
            self._taken = set()
        ids: dict[str, str] = {}
        for call in calls:
            if call.call_id in ids:
                raise UsageError(f"two calls of one turn have the id {call.call_id!r}")
            ids[call.call_id] = self._id_of(call)
        return ids

    def _id_of(self, call: CallPart) -> str:
        id_ = own_id(call)
        attempt = 0
        while id_ in self._taken or not self._pattern.fullmatch(id_):
            # Nine letters and digits are what every API takes; Mistral takes nothing else.
            seed = f"{own_id(call)} {attempt}".encode(errors="surrogatepass")
            id_ = hashlib.sha256(seed).hexdigest()[:9]
            attempt += 1
        self._taken.add(id_)
        return id_


def own_id(call: CallPart) -> str:
    """Give the id under which the provider that made a call knows it."""
    item = call.item or {}
    ids = (item.get("call_id"), item.get("id"))
    return next((id_ for id_ in ids if isinstance(id_, str) and id_), call.call_id)


def wire_name(name: str, offered: Collection[str]) -> str:
    """Give a name that an API takes: a model may have called what nobody offered."""
    if name in offered or _NAME.fullmatch(name):
        return name
    return _NOT_IN_NAMES.sub("_", name)[:64] or "unnamed"


def turns_of(messages: Iterable[Message], ids: CallIds) -> list[Turn]:
    """Join neighbours of one role, and find the result of each call.

    Raises ``UsageError``, which names the call, if there is none right after it, or if a result
    belongs to no call.
    """
    turns: list[Turn] = []
    open_calls: dict[str, CallPart] = {}  # of the turn before, that a client runs
    by_provider: set[str] = set()
    wire_ids: dict[str, str] = {}
    for role, group in groupby(messages, key=lambda message: message.role):
        said = [Said(part, message) for message in group for part in message.parts]
        if role == "assistant":
            calls = [part for part, _ in said if isinstance(part, CallPart)]
            by_provider |= {call.call_id for call in calls if call.kind in RUN_BY_PROVIDER}
            clients = [call for call in calls if call.kind not in RUN_BY_PROVIDER]
            wire_ids = ids.for_calls(clients)
            open_calls = {call.call_id: call for call in clients}
            turns.append(Turn(role, said, wire_ids, []))
        else:
            answers = list(_answers(said, open_calls, wire_ids, by_provider))
            _check_all_answered(open_calls, answers)
            open_calls = {}
            rest = [one for one in said if not isinstance(one.part, CallPart | ResultPart)]
            turns.append(Turn(role, rest, {}, answers))
    _check_all_answered(open_calls, [])
    return turns


def _answers(
    said: list[Said],
    calls: dict[str, CallPart],
    wire_ids: dict[str, str],
    by_provider: Collection[str],
) -> Iterator[Answer]:
    answered: set[str] = set()
    for part, _ in said:
        if not isinstance(part, ResultPart):
            continue
        id_ = part.call_id
        if id_ in answered:
            raise UsageError(f"the call {id_!r} has two results: give it one")
        if id_ in calls:
            answered.add(id_)
            yield Answer(calls[id_], wire_ids[id_], part)
        elif id_ not in by_provider:
            raise UsageError(
                f"there is a result of the call {id_!r}, but no such call in the assistant's "
                "message before it"
            )


def _check_all_answered(calls: dict[str, CallPart], answers: list[Answer]) -> None:
    answered = {answer.call.call_id for answer in answers}
    for id_, call in calls.items():
        if id_ not in answered:
            raise UsageError(
                f"the call {id_!r} of {call.name!r} has no result: put a ResultPart with its "
                "call_id into the user's message right after it"
            )
