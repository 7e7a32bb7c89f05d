"""The tables of the fifth chapter: the stores."""

from stopwatch import Measurement, find
from store_results import (
    APPENDS,
    BASES,
    JOININGS,
    NO_STORE,
    PLACES,
    STORES,
    StoreResults,
)
from tables import Table, growth, microseconds, milliseconds, rate


def store_tables(results: StoreResults) -> dict[str, Table]:
    """Make all of them, by the names that the page has for them."""
    return {
        "store_rates": _rates(results),
        "store_ratios": _ratios(results),
        "store_latencies": _latencies(results),
        "store_agents": _agents(results),
        "store_joins": _joins(results),
    }


STORE_TITLES = {
    "store_rates": "Appending to a log: records per second",
    "store_ratios": "Time per record: that of the store divided by that without it",
    "store_latencies": "From append to somebody who follows, in ms",
    "store_agents": "An agent with a store: µs of CPU time per delta, and the ratio",
    "store_joins": "Joining a run of 10,000 deltas, in ms",
}


def _rates(results: StoreResults) -> Table:
    return Table(
        ["store", *(appends.name for appends in APPENDS)],
        [
            [place, *(_rate(find(results.appends, place, appends.name)) for appends in APPENDS)]
            for place in PLACES
        ],
    )


def _ratios(results: StoreResults) -> Table:
    return Table(
        ["store", *(appends.name for appends in APPENDS)],
        [
            [
                f"{store} / {base}",
                *(_ratio(results.ratio_to_base(store, base, appends)) for appends in APPENDS),
            ]
            for store, base in BASES
        ],
    )


def _latencies(results: StoreResults) -> Table:
    return Table(
        ["store", "process of the follower", "p50", "p99"],
        [
            [found.store, found.follower, milliseconds(found.p50), milliseconds(found.p99)]
            for found in results.latencies
        ],
        names=2,
    )


def _agents(results: StoreResults) -> Table:
    rows = []
    for writing in results.writings:
        cells = [_time(find(results.agents, NO_STORE, writing.name))]
        for store in STORES:
            cells.append(_time(find(results.agents, store, writing.name)))
            cells.append(_ratio(results.ratio_to_no_store(store, writing)))
        rows.append([writing.name, *cells])
    columns = [cell for store in STORES for cell in (store, "ratio")]
    return Table(["what is written", NO_STORE, *columns], rows)


def _joins(results: StoreResults) -> Table:
    return Table(
        ["store", *(joining.name for joining in JOININGS)],
        [
            [store, *(_join(find(results.joins, store, joining.name)) for joining in JOININGS)]
            for store in STORES
        ],
    )


def _rate(found: Measurement | None) -> str:
    return rate(1e6 / found.microseconds) if found else "–"


def _time(found: Measurement | None) -> str:
    return microseconds(found.microseconds, sampled=False) if found else "–"


def _join(found: Measurement | None) -> str:
    return milliseconds(found.microseconds / 1e6) if found else "–"


def _ratio(ratio: float | None) -> str:
    return growth(ratio) if ratio else "–"
