"""The SQLite store writes what many runs say at once together; what fails still fails alone."""

import asyncio
from pathlib import Path

from argstream.errors import RunTaken, UsageError
from argstream.log import Claim
from argstream.stores import SqliteStore
from tests.stores.records import SECONDS, Writer

RUNS = 70


async def _begun(store: SqliteStore) -> list[tuple[Writer, Claim]]:
    writers = [Writer(f"run-{number}") for number in range(RUNS)]
    return [(writer, await store.begin(writer.started(), "me", SECONDS)) for writer in writers]


def test_each_run_gets_its_own_records(tmp_path: Path) -> None:
    async def course() -> None:
        async with SqliteStore(tmp_path / "runs.db") as store:
            runs = await _begun(store)
            for number in range(3):
                words = [
                    [f"{writer.run_id} {number} {place} " for place in range(number + 1)]
                    for writer, _ in runs
                ]
                await asyncio.gather(
                    *(
                        store.append(claim, writer.texts(*said))
                        for (writer, claim), said in zip(runs, words, strict=True)
                    )
                )
            for writer, _ in runs:
                records = await store.read(writer.run_id)
                said = [
                    f"{writer.run_id} {number} {place} "
                    for number in range(3)
                    for place in range(number + 1)
                ]
                assert [record.seq for record in records] == list(range(1, 8))
                assert [record.event.text for record in records[1:]] == said  # type: ignore[union-attr] # texts
                info = await store.info(writer.run_id)
                assert info.seq == 7

    asyncio.run(course())


def test_who_may_not_write_is_told_and_the_others_are_not(tmp_path: Path) -> None:
    async def course() -> None:
        async with SqliteStore(tmp_path / "runs.db") as store:
            runs = await _begun(store)
            lost, gap, again = (writer for writer, _ in runs[:3])
            await store.release(runs[0][1])
            gap.seq += 1
            known = again.texts("again ")
            await store.append(runs[2][1], known)
            batches = [lost.texts("x"), gap.texts("x"), known]
            batches += [writer.texts("x") for writer, _ in runs[3:]]
            answers = await asyncio.gather(
                *(
                    store.append(claim, batch)
                    for (_, claim), batch in zip(runs, batches, strict=True)
                ),
                return_exceptions=True,
            )
            assert isinstance(answers[0], RunTaken)
            assert isinstance(answers[1], UsageError)
            assert answers[2:] == [None] * (RUNS - 2)
            lengths = [len(await store.read(writer.run_id)) for writer, _ in runs]
            assert lengths == [1, 1, *[2] * (RUNS - 2)]

    asyncio.run(course())


def test_followers_hear_of_all_of_it(tmp_path: Path) -> None:
    async def course() -> None:
        async with SqliteStore(tmp_path / "runs.db") as store:
            runs = await _begun(store)

            async def follow(run_id: str) -> list[int]:
                return [record.seq async for record in store.follow(run_id)]

            following = [asyncio.create_task(follow(writer.run_id)) for writer, _ in runs]
            for _ in range(5):
                await asyncio.gather(
                    *(store.append(claim, writer.texts("word ")) for writer, claim in runs)
                )
            await asyncio.gather(
                *(store.append(claim, writer.completed()) for writer, claim in runs)
            )
            assert await asyncio.gather(*following) == [list(range(1, 8))] * RUNS

    asyncio.run(course())
