"""What the hash of a run in Redis says: see ``_redis_scripts`` for its fields."""

from collections.abc import Iterator, Sequence
from typing import Final, cast

from argstream.errors import StoreFailure
from argstream.events import RunStatus
from argstream.log import Posts, RunInfo
from argstream.stores._batches import posts_from_json

__all__ = ["identity_of", "info_of", "posts_of"]

_NEEDED: Final = (b"session", b"agent", b"status", b"seq", b"created", b"updated")


def info_of(run_id: str, fields: Sequence[bytes], now: float) -> RunInfo:
    """Say what is known of a run, by the fields and values of its hash."""
    try:
        return _info(run_id, fields, now)
    except (KeyError, ValueError) as error:
        raise StoreFailure(
            f"Redis has no run {run_id!r} that can be read: something else changed it"
        ) from error


def _info(run_id: str, fields: Sequence[bytes], now: float) -> RunInfo:
    found = dict(_pairs(fields))
    session_id, agent, status, seq, created, updated = (found[name] for name in _NEEDED)
    until = int(found.get(b"until", 0)) / 1000
    is_driven = until > now
    return RunInfo(
        run_id=run_id,
        session_id=session_id.decode(),
        agent=agent.decode(),
        status=cast("RunStatus", status.decode()),
        seq=int(seq),
        created=float(created),
        updated=float(updated),
        owner=found[b"owner"].decode() if is_driven else None,
        claimed_until=until if is_driven else None,
        pending={call_id: digest.decode() for call_id, digest in _calls(fields, b"pending:")},
        has_posts=posts_of(fields) not in (None, Posts()),
        user=found.get(b"user", b"").decode(),  # older runs have none
    )


def identity_of(fields: Sequence[bytes]) -> bytes:
    """Give that by which a run is told from others that had its name, or will have it."""
    return dict(_pairs(fields)).get(b"begun", b"")


def posts_of(fields: Sequence[bytes]) -> Posts | None:
    """Say what was posted and has not been used; None if the run is over."""
    found = dict(_pairs(fields))
    if found.get(b"status") not in (b"running", b"paused"):
        return None
    reason = found.get(b"stop")
    waiting = dict(_calls(fields, b"decision:"))
    return posts_from_json(waiting, None if reason is None else reason.decode())


def _pairs(fields: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(fields[::2], fields[1::2], strict=True)


def _calls(fields: Sequence[bytes], kind: bytes) -> Iterator[tuple[str, bytes]]:
    for name, value in _pairs(fields):
        if name.startswith(kind):
            yield name[len(kind) :].decode(), value
