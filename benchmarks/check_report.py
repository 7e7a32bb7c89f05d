"""The tables of the third chapter: judging a call while it is written."""

from statistics import median

from argstream.jsonstream import JsonPath
from check_peers import PEERS
from check_results import ALONE, JUDGED_STREAMS, STREAM, CheckResults, peer_workload
from checks import SCHEMAS
from earliness import Earliness, Rejection
from stopwatch import Measurement, find
from tables import Table, fraction, growth, microseconds, share, size_name


def check_tables(results: CheckResults) -> dict[str, Table]:
    """Make all of them, by the names that the page has for them."""
    return {
        "early": _early(results.early),
        "early_orders": _orders(results.early),
        "check_costs": _costs(results),
        "check_streams": _streams(results),
        "check_peers": _peers(results),
        "check_growth": _growth(results),
    }


CHECK_TITLES = {
    "early": "How much of a wrong call is read before it is rejected",
    "early_orders": "write_file, its content last and first: characters read",
    "check_costs": "Judging while parsing: µs of CPU time per chunk, and the ratio",
    "check_streams": "From Anthropic's bytes to events, judged: µs of CPU time per delta",
    "check_peers": "argstream's cost as a fraction of judging all of it again with each chunk",
    "check_growth": "Judging while parsing: µs of CPU time per chunk, by the size of the arguments",
}


def check_remarks() -> str:
    """Say what who reads the figures must know about each peer."""
    return "\n".join(f"- **{peer}**: {remark}" for peer, remark in PEERS.items())


def _early(early: Earliness) -> Table:
    rows = [
        [
            one.call.tool,
            one.call.wrong,
            _place(one.path),
            one.by,
            f"{one.read:,}",
            f"{one.whole:,}",
            share(one.share),
        ]
        for one in early.rejections
    ]
    middle = share(median(one.share for one in early.rejections))
    return Table(
        ["tool", "what is wrong", "rejected at", "by", "read", "validated at the end", "share"],
        [*rows, ["median", "", "", "", "", "", middle]],
        names=4,
    )


def _orders(early: Earliness) -> Table:
    return Table(
        ["what is wrong", "by", "content last", "content first", "validated at the end"],
        [
            [last.call.wrong, last.by, _read(last), _read(first), f"{last.whole:,}"]
            for last, first in early.in_both_orders
        ],
        names=2,
    )


def _costs(results: CheckResults) -> Table:
    rows = []
    for check in results.checks:
        times = [
            _time(find(results.measurements, name, check.text)) for name in (ALONE, check.name)
        ]
        rows.append([check.name, *times, _ratio(results.ratio(check))])
    return Table(["what is judged", "parsing alone", "with judging", "ratio"], rows)


def _streams(results: CheckResults) -> Table:
    rows = []
    for way in [STREAM, *JUDGED_STREAMS]:
        cells = []
        for text in SCHEMAS:
            ratio = results.stream_ratio(way, text)
            cells += [_time(find(results.streams, way, text)), _ratio(ratio)]
        rows.append([f"`{way}`", *cells])
    columns = [cell for text in SCHEMAS for cell in (text, "ratio")]
    return Table(["way", *columns], rows)


def _peers(results: CheckResults) -> Table:
    workloads = [peer_workload(text, size) for text in SCHEMAS for size in results.peer_sizes]
    rows = []
    for peer in PEERS:
        ratios = [results.peer_ratio(peer, workload) for workload in workloads]
        rows.append([peer, *(fraction(ratio) if ratio else "–" for ratio in ratios)])
    return Table(["peer", *workloads], rows)


def _growth(results: CheckResults) -> Table:
    small, large = map(size_name, results.growth_sizes)
    rows = []
    for name in results.growing:
        times = [_time(find(results.growth, name, size)) for size in (small, large)]
        rows.append([name, *times, _ratio(results.growth_of(name))])
    return Table(["what is judged", small, large, f"{large} / {small}"], rows)


def _place(path: JsonPath) -> str:
    """Write a path as short as it can be read."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]
    return "".join(steps).removeprefix(".") or "–"


def _read(one: Rejection) -> str:
    return f"{one.read:,} ({share(one.share)})"


def _time(found: Measurement | None) -> str:
    return microseconds(found.microseconds, sampled=False) if found else "–"


def _ratio(ratio: float | None) -> str:
    return growth(ratio) if ratio else "–"
