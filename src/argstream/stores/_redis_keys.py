"""The names of the keys that a store has in Redis: see ``_redis_scripts`` for what is in them."""

from typing import Final, NamedTuple

import msgspec

from argstream.errors import StoreFailure
from argstream.stores._redis_clients import Clients

__all__ = ["Keys", "Whose"]

_ENCODED: Final = str.maketrans({"%": "%25", "{": "%7B", "}": "%7D"})


class Whose(NamedTuple):
    """Whose run it is, and of which conversation."""

    session_id: str
    user: str

    def to_json(self) -> bytes:
        """Write it as it is stored."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, text: bytes) -> "Whose":
        """Read what ``to_json`` wrote."""
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise StoreFailure(f"Redis says of a run that it is of {text!r}: {error}") from error


class Keys:
    """The keys that begin with one prefix."""

    def __init__(self, prefix: bytes, clients: Clients) -> None:
        self._prefix = prefix
        self._clients = clients
        self.index = prefix + b":runs"
        self.unfinished = prefix + b":unfinished"
        self.whose = prefix + b":whose"

    def run(self, run_id: str) -> bytes:
        """Give the key of what is known of a run."""
        return self._named(run_id) + b"run"

    def channel(self, run_id: str) -> bytes:
        """Give the channel on which is told what happens to a run."""
        return b"%bnews:%d" % (self._named(run_id), self._clients.database)

    def all_of(self, run_id: str) -> list[bytes]:
        """Give the keys that the scripts for one run want."""
        log = self._named(run_id) + b"log"
        shared = [self.unfinished, self.whose]
        return [self.run(run_id), log, self.index, self.channel(run_id), *shared]

    def session(self, session_id: str) -> bytes:
        """Give the key of the set of a conversation's runs."""
        return self._named(session_id) + b"session"

    def user(self, user: str) -> bytes:
        """Give the key of the set of somebody's runs."""
        return self._named(user) + b"user"

    def sets(self, whose: Whose | None) -> list[bytes]:
        """Give the keys of the sets that a run is in, besides those of all runs."""
        if whose is None:
            return []
        mine = [self.user(whose.user)] if whose.user else []
        return [self.session(whose.session_id), *mine]

    def _named(self, name: str) -> bytes:
        return b"%b:{%b}:" % (self._prefix, name.translate(_ENCODED).encode())
