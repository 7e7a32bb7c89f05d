"""Why Redis did not do it, in words: what, where, and what to do about it.

An address may have a password in it, so only its host and port are told.
"""

from collections.abc import Mapping
from typing import Any, Final

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    MaxConnectionsError,
    NoPermissionError,
    RedisError,
)
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import TimeoutError as NoAnswer

from argstream.errors import StoreFailure

__all__ = ["failure", "may_pass", "place_of"]

# Errors from inside a script come with all kinds of words around them, so these are looked for
# anywhere. The first that is found counts.
_ANSWERS: Final = {
    "WRONGTYPE": "a key of the store is something else's: give the store a prefix of its own",
    "OOM ": "it is out of memory: raise its maxmemory, or let runs expire",
    "READONLY": "it is a replica, which cannot be written to: give the address of the primary",
    "MISCONF": "it cannot write to its disk, and so takes nothing: see its log",
    "NOREPLICAS": "it has too few replicas to take anything: see its min-replicas-to-write",
    "MASTERDOWN": "it is a replica that has lost its primary: give the address of the primary",
    "CROSSSLOT": "it is a cluster: give the store a prefix in braces, such as '{argstream}'",
    "MOVED ": "it is a node of a cluster, and another node has the runs: give the address of that",
    "unknown command": "it does not know a command that is needed: use Redis 6.2 or newer",
}


def may_pass(error: RedisError) -> bool:
    """Say whether the same may well work a little later: the connection was lost, no more."""
    if isinstance(error, AuthenticationError | AuthorizationError):
        return False
    return isinstance(error, ConnectionLost | NoAnswer)


def failure(error: RedisError | None, place: str, seconds: float) -> StoreFailure:
    """Make the exception that tells of an error, which was tried for so long to get around."""
    return StoreFailure(f"Redis at {place}: {_problem(error, f'{seconds:g} s')}")


def place_of(settings: Mapping[str, Any]) -> str:
    """Say where a server is, by the settings of a pool of connections."""
    if path := settings.get("path"):
        return str(path)
    return f"{settings.get('host', 'localhost')}:{settings.get('port', 6379)}"


def _problem(error: RedisError | None, time: str) -> str:
    match error:
        case AuthenticationError() | AuthorizationError():
            return f"it wants another name or password: check those in the address ({error})"
        case NoPermissionError():
            return f"this user may not do what the store needs: change its ACL ({error})"
        case MaxConnectionsError():
            return "all connections of the client are in use: raise its max_connections"
        case BusyLoadingError():
            return f"it still reads its data, after {time}: try again later"
        case NoAnswer() | None:
            return f"it has not answered for {time}: see whether it runs, and is not too busy"
        case ConnectionLost():
            return f"it cannot be reached, tried for {time}: see whether it runs there ({error})"
        case _:
            said = f"{error.status_code or ''} {error}".strip()
            return next((words for mark, words in _ANSWERS.items() if mark in said), said)
