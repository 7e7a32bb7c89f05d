"""What a store knows of a run besides its records, and the rules for changing it.

Memory and SQLite share these; the rules themselves are told in ``_base``. Each method checks all of
its rules before it changes anything.
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from argstream.errors import AlreadyDecided, RunTaken
from argstream.events import RunStatus
from argstream.log import Claim, Posts, RunInfo
from argstream.stores._batches import Batch, posts_from_json
from argstream.stores._refusals import (
    gap,
    lost,
    nobody_is_asked,
    other_record,
    other_request,
    run_is_over,
)

__all__ = ["FIRST_TOKEN", "RunState"]

FIRST_TOKEN: Final = 1


class RunState(Struct, kw_only=True):
    """A run, without its records."""

    run_id: str
    session_id: str
    agent: str
    status: RunStatus
    seq: int
    created: float
    updated: float
    token: int
    owner: str | None
    """Who had the last claim; None if it was given up."""
    until: float
    """How long that is good."""
    lasts: float
    """For how many seconds it was given."""
    pending: dict[str, str]
    """The digests of the requests that wait, by call."""
    decisions: dict[str, str | None]
    """The decisions that wait to be used, as JSON; None for those that were used."""
    stop_reason: str | None
    user: str
    """Whose run it is."""
    posts_version: int
    """Another whenever what was posted may have changed."""

    @classmethod
    def begun(cls, batch: Batch, owner: str, seconds: float, now: float) -> "RunState":
        """Make a run of its first records, with a claim on it."""
        state = cls(
            run_id=batch.run_id,
            session_id=batch.session_id,
            agent=batch.agent,
            status="running",
            seq=0,
            created=batch.created,
            updated=batch.updated,
            token=FIRST_TOKEN,
            owner=owner,
            until=now + seconds,
            lasts=seconds,
            pending={},
            decisions={},
            stop_reason=None,
            user=batch.user,
            posts_version=0,
        )
        state._take(batch)
        return state

    @property
    def is_over(self) -> bool:
        """Whether its last event is in the log."""
        return self.status not in ("running", "paused")

    @property
    def newest_claim(self) -> Claim:
        """The last claim that anybody had."""
        return Claim(self.run_id, self.owner or "", self.token)

    # Claims

    def claim(self, owner: str, seconds: float, now: float) -> Claim:
        """Give somebody the run."""
        if self._is_driven(now):
            raise self._taken(now)
        self.token += 1
        self.owner = owner
        self._last_for(seconds, now)
        return self.newest_claim

    def renew(self, claim: Claim, seconds: float, now: float) -> None:
        """Let who has the run keep it for longer."""
        self.check(claim, now)
        self._last_for(seconds, now)

    def _last_for(self, seconds: float, now: float) -> None:
        self.until, self.lasts = now + seconds, seconds

    def release(self, claim: Claim) -> bool:
        """Take the run from who gives it up; say whether he had it."""
        if claim.token != self.token:
            return False
        self._let_go()
        return True

    def _let_go(self) -> None:
        self.token += 1
        self.owner, self.until, self.lasts = None, 0.0, 0.0

    def check(self, claim: Claim, now: float) -> None:
        """See that nobody has claimed the run since."""
        if claim.token != self.token:
            raise self._taken(now)

    def check_deletable(self, now: float) -> None:
        """See that nobody is at work on it."""
        if self._is_driven(now) and not self.is_over:
            raise self._taken(now)

    def has_expired(self, before: float, now: float, *, unfinished: bool) -> bool:
        """Say whether nothing has happened since then, and nobody means to go on."""
        is_idle = self.is_over or (unfinished and not self._is_driven(now))
        return is_idle and self.updated <= before

    def _is_driven(self, now: float) -> bool:
        # If it seems to be good for much longer than it was given for, the clock was set back. Who
        # has it renews it; one who is dead must not keep it until that time comes again.
        return self.owner is not None and 0 < self.until - now <= 2 * self.lasts

    def _taken(self, now: float) -> RunTaken:
        return lost(self.run_id, self.owner, self.until - now)

    # Records

    def append(
        self, claim: Claim, batch: Batch, there: Callable[[], list[bytes]], now: float
    ) -> bool:
        """Go on with a batch, and say whether it must be written: not if it is there already.

        ``there`` reads what the log has in its place.
        """
        if batch.last <= self.seq and there() == batch.lines:
            return False
        self.check(claim, now)
        if batch.last <= self.seq:
            raise other_record(self.run_id, batch.first)
        if self.is_over:
            raise run_is_over(self.run_id, self.status)
        if batch.first != self.seq + 1:
            raise gap(self.run_id, self.seq, batch.first)
        self._take(batch)
        return True

    def _take(self, batch: Batch) -> None:
        self.seq, self.updated = batch.last, batch.updated
        self.status = batch.status or self.status
        self.posts_version += batch.changes_posts
        if batch.rests:
            self._let_go()
        for call_id, digest in batch.asked:
            if digest is None:
                self.pending.pop(call_id, None)
                self.decisions[call_id] = None
            elif self.pending.get(call_id) != digest:
                self.pending[call_id] = digest
                self.decisions.pop(call_id, None)

    # Posts

    def decide(self, decisions: Mapping[str, tuple[bytes, str]]) -> None:
        """Take decisions on calls: all of them or none."""
        for call_id, (_, digest) in decisions.items():
            if call_id in self.decisions:
                raise AlreadyDecided(call_id)
            if self.is_over or call_id not in self.pending:
                raise nobody_is_asked(self.run_id, call_id)
            if digest and digest != self.pending[call_id]:
                raise other_request(call_id)
        for call_id, (line, _) in decisions.items():
            self.decisions[call_id] = line.decode()
        self.posts_version += 1

    def reopen(self, call_id: str) -> None:
        """Take a decision back that waits to be used."""
        if self.decisions.get(call_id) is not None:
            del self.decisions[call_id]
            self.posts_version += 1

    def stop(self, reason: str) -> None:
        """Take note that somebody wants the run stopped."""
        if self.is_over:
            raise run_is_over(self.run_id, self.status)
        if self.stop_reason is None:
            self.stop_reason = reason
            self.posts_version += 1

    def posts(self) -> Posts | None:
        """Give what waits for who drives the run; None if it is over."""
        if self.is_over:
            return None
        waiting = {call_id: line for call_id, line in self.decisions.items() if line is not None}
        return posts_from_json(waiting, self.stop_reason)

    def info(self, now: float) -> RunInfo:
        """Say what is known of the run."""
        is_driven = self._is_driven(now)
        return RunInfo(
            run_id=self.run_id,
            session_id=self.session_id,
            agent=self.agent,
            status=self.status,
            seq=self.seq,
            created=self.created,
            updated=self.updated,
            owner=self.owner if is_driven else None,
            claimed_until=self.until if is_driven else None,
            pending=dict(self.pending),
            has_posts=self.posts() not in (None, Posts()),
            user=self.user,
        )
