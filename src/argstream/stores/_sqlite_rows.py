"""The rows of the SQLite store: runs and their records, as they are read and written."""

from collections.abc import Iterator, Sequence
from sqlite3 import Connection
from typing import Any, Final

import msgspec

from argstream.errors import UnknownRun
from argstream.log import Claim
from argstream.stores._batches import Batch
from argstream.stores._checks import Wanted
from argstream.stores._sqlite_file import SOMEBODYS, UNFINISHED
from argstream.stores._state import RunState
from argstream.stores._tails import Page

__all__ = [
    "drop",
    "find",
    "get",
    "grow_all",
    "insert",
    "merely_grows",
    "newest",
    "page",
    "save",
    "states",
    "there",
    "try_to_grow",
    "write",
]

_COLUMNS: Final = RunState.__struct_fields__
_JSON: Final = {"pending": dict[str, str], "decisions": dict[str, str | None]}
_NAMES: Final = ", ".join(_COLUMNS)
_INSERT: Final = f"INSERT INTO runs ({_NAMES}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 - our own names
_UPDATE: Final = f"UPDATE runs SET ({_NAMES}) = ({', '.join('?' * len(_COLUMNS))}) WHERE key = ?"  # noqa: S608 - as above
_GROW: Final = (
    "UPDATE runs SET seq = ?, updated = ? "
    "WHERE run_id = ? AND token = ? AND seq = ? AND status IN ('running', 'paused') RETURNING key"
)
_GROW_ALL: Final = (
    "UPDATE runs SET seq = new.seq, updated = new.updated "
    "FROM (SELECT column1 AS seq, column2 AS updated, column3 AS run_id, column4 AS token, "
    "column5 AS before FROM (VALUES {})) AS new "
    "WHERE runs.run_id = new.run_id AND runs.token = new.token AND runs.seq = new.before "
    "AND runs.status IN ('running', 'paused')"
)
_WRITE: Final = (
    "INSERT INTO records (run, seq, line) SELECT column1, column2, column3 FROM (VALUES {}) "
    "WHERE column1 IS NOT NULL"
)
_WRITE_ALL: Final = (
    "INSERT INTO records (run, seq, line) SELECT runs.key, new.column2, new.column3 "
    "FROM (VALUES {}) AS new JOIN runs ON runs.run_id = new.column1"
)
_ROWS_AT_ONCE: Final = 512
_PAGE_BYTES: Final = 4_000_000


# Runs


def find(connection: Connection, run_id: str) -> tuple[int, RunState] | None:
    """Give a run and the key of its row; None if there is none."""
    row = connection.execute(
        f"SELECT key, {_NAMES} FROM runs WHERE run_id = ?",  # noqa: S608 - as above
        (run_id,),
    ).fetchone()
    return None if row is None else (row[0], _state(row[1:]))


def get(connection: Connection, run_id: str) -> tuple[int, RunState]:
    """Give a run and the key of its row."""
    if (found := find(connection, run_id)) is None:
        raise UnknownRun(run_id)
    return found


def states(connection: Connection, rest: str, values: Sequence[Any]) -> list[RunState]:
    """Give the runs that a condition, and what else follows it, selects."""
    rows = connection.execute(f"SELECT {_NAMES} FROM runs {rest}", values)  # noqa: S608 - as above
    return [_state(row) for row in rows]


def newest(connection: Connection, wanted: Wanted, limit: int | None) -> list[RunState]:
    """Give the runs that are wanted, those with the newest records first.

    A condition is there only if something is asked, and says again what an index is about: else
    SQLite does not use that.
    """
    conditions = {
        "status = ?": wanted.status,
        "session_id = ?": wanted.session_id,
        "user = ?": wanted.user,
    }
    asked = {condition: value for condition, value in conditions.items() if value is not None}
    where = list(asked)
    if wanted.status in ("running", "paused"):
        where.append(UNFINISHED)
    if wanted.user:
        where.append(SOMEBODYS)
    return states(
        connection,
        f"{'WHERE ' if where else ''}{' AND '.join(where)} "
        "ORDER BY updated DESC, run_id DESC LIMIT ?",
        (*asked.values(), -1 if limit is None else limit),
    )


def insert(connection: Connection, state: RunState) -> int:
    """Make a row for a run, and give its key."""
    key = connection.execute(_INSERT, _row(state)).lastrowid
    assert key is not None  # noqa: S101 - for types: a row was inserted
    return key


def save(connection: Connection, key: int, state: RunState) -> None:
    """Write down what has changed in a run."""
    connection.execute(_UPDATE, (*_row(state), key))


def drop(connection: Connection, run_id: str) -> None:
    """Delete a run and its records."""
    connection.execute(
        "DELETE FROM records WHERE run = (SELECT key FROM runs WHERE run_id = ?)", (run_id,)
    )
    connection.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))


def _row(state: RunState) -> list[Any]:
    return [
        msgspec.json.encode(value).decode() if name in _JSON else value
        for name, value in zip(_COLUMNS, msgspec.structs.astuple(state), strict=True)
    ]


def _state(row: Sequence[Any]) -> RunState:
    fields = dict(zip(_COLUMNS, row, strict=True))
    for name, kind in _JSON.items():
        fields[name] = msgspec.json.decode(fields[name], type=kind)
    return RunState(**fields)


# Records


def try_to_grow(connection: Connection, claim: Claim, batch: Batch) -> int | None:
    """Take note of a batch that changes nothing but the length of the log, if all is well.

    Most batches are of this kind. Gives the key of the run's row; None if something is in the way.
    """
    if not merely_grows(batch):
        return None
    rows = connection.execute(_GROW, _growth(claim, batch)).fetchall()
    return rows[0][0] if rows else None


def merely_grows(batch: Batch) -> bool:
    """Say whether a batch changes nothing but the length of the log."""
    return batch.status is None and not batch.asked


def _growth(claim: Claim, batch: Batch) -> tuple[Any, ...]:
    return batch.last, batch.updated, claim.run_id, claim.token, batch.first - 1


def grow_all(connection: Connection, growths: Sequence[tuple[Claim, Batch]]) -> bool:
    """Write such batches of several runs; False if something is in the way of any of them.

    Then what was changed must be undone.
    """
    places = [_growth(claim, batch) for claim, batch in growths]
    grown = sum(
        connection.execute(statement, values).rowcount
        for statement, values in _in_few(_GROW_ALL, places)
    )
    if grown != len(growths):
        return False
    rows = [
        (batch.run_id, seq, line)
        for _, batch in growths
        for seq, line in enumerate(batch.lines, batch.first)
    ]
    for statement, values in _in_few(_WRITE_ALL, rows):
        connection.execute(statement, values)
    return True


def write(connection: Connection, key: int, batch: Batch) -> None:
    """Write the records of a batch.

    As few statements as possible: each lets another thread run, and if that is busy it takes its
    five milliseconds before it hands back.
    """
    rows = [(key, seq, line) for seq, line in enumerate(batch.lines, batch.first)]
    for statement, values in _in_few(_WRITE, rows):
        connection.execute(statement, values)


def _in_few(statement: str, rows: Sequence[tuple[Any, ...]]) -> Iterator[tuple[str, list[Any]]]:
    """Give as few statements as possible for so many rows, of which few differ.

    What is missing to a round number of rows is filled up with nulls, which match nothing.
    """
    width = len(rows[0])
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        some = rows[start : start + _ROWS_AT_ONCE]
        count = 1 << (len(some) - 1).bit_length()
        marks = ", ".join([f"({', '.join('?' * width)})"] * count)
        values: list[Any] = [one for row in some for one in row]
        values += [None] * (width * (count - len(some)))
        yield statement.format(marks), values


def there(connection: Connection, key: int, batch: Batch) -> list[bytes]:
    """Give what the log has where a batch would go."""
    rows = connection.execute(
        "SELECT line FROM records WHERE run = ? AND seq BETWEEN ? AND ? ORDER BY seq",
        (key, batch.first, batch.last),
    )
    return [line for (line,) in rows]


def page(connection: Connection, run_id: str, after: int, limit: int) -> Page:
    """Give records after a seq: so many, or fewer if they are large; and whether there are more."""
    run = connection.execute("SELECT key FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    if run is None:
        raise UnknownRun(run_id)
    rows = connection.execute(
        "SELECT line FROM records WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?",
        (run[0], after, limit + 1),
    )
    lines: list[bytes] = []
    size = 0
    for (line,) in rows:
        if len(lines) == limit or size > _PAGE_BYTES:
            rows.close()
            return lines, True
        lines.append(line)
        size += len(line)
    return lines, False
