"""The tables of the second chapter: from bytes to events."""

from event_results import EventResults
from readers import ARGSTREAM
from routes import THROUGH_HTTP
from stopwatch import Measurement
from tables import Table, fraction, growth, microseconds, size_name
from wire_workloads import ALL_PROTOCOLS, PROTOCOLS, workload_name


def event_tables(results: EventResults) -> dict[str, Table]:
    """Make all of them, by the names that the page has for them."""
    return {
        "event_ratios": _ratios(results),
        "event_on_top": _on_top(results),
        "event_reads": _reads(results),
        "event_growth": _growth(results),
        "event_memory": _memory(results),
        "event_times": _times(results),
    }


EVENT_TITLES = {
    "event_ratios": "From bytes to events: argstream's CPU time as a fraction of the SDK's",
    "event_on_top": "argstream on an SDK's stream: µs of CPU time per delta, and the ratio",
    "event_reads": "µs of CPU time per delta, by how the bytes come",
    "event_growth": "µs of CPU time per delta, by the size of the arguments",
    "event_memory": "Memory of one call",
    "event_times": "µs of CPU time per delta",
}


def event_remarks(results: EventResults) -> str:
    """Say what who reads the figures must know about each SDK."""
    return "\n".join(f"- **{route.name}**: {route.remark}" for route in results.beside)


def _ratios(results: EventResults) -> Table:
    return Table(
        ["peer", *map(size_name, results.sizes)],
        [
            [route.name, *(_ratio(results.ratio(route, size)) for size in results.sizes)]
            for route in results.beside
        ],
    )


def _on_top(results: EventResults) -> Table:
    size = results.sizes[-1]
    rows = []
    for route in results.on_top:
        workload = workload_name(route.protocol, size)
        times = [
            _time(results.find(route.on_top_of, workload)),
            _time(results.find(route.name, workload)),
        ]
        rows.append([route.on_top_of, *times, _growth_ratio(results.ratio(route, size))])
    return Table(["SDK's stream", "alone, µs", "with argstream, µs", "ratio"], rows)


def _reads(results: EventResults) -> Table:
    size = results.sizes[-1]
    rows = []
    for through_http in THROUGH_HTTP:
        protocol = through_http.protocol
        workload = workload_name(protocol, size)
        large_reads = workload_name(protocol, size, large_reads=True)
        found = [
            results.find(ARGSTREAM.name, workload),
            results.find(ARGSTREAM.name, large_reads),
            results.find(through_http.name, workload),
        ]
        rows.append([protocol, *map(_time, found)])
    return Table(["stream", "event by event", "16 kB at a time", "event by event, httpx2"], rows)


def _growth(results: EventResults) -> Table:
    small, large = map(size_name, results.growth_sizes)
    rows = []
    for protocol in ALL_PROTOCOLS:
        times = [
            _time(results.find(ARGSTREAM.name, workload_name(protocol, size)))
            for size in results.growth_sizes
        ]
        ratios = [results.growth_of(protocol), results.beside_anthropic(protocol)]
        rows.append([protocol, *times, *map(_growth_ratio, ratios)])
    return Table(["stream", small, large, f"{large} / {small}", "/ Anthropic"], rows)


def _memory(results: EventResults) -> Table:
    return Table(
        [
            "stream",
            "bytes per character, call open",
            "the same, to the end",
            f"{size_name(results.growth_sizes[0])}, all in all",
        ],
        [
            [
                found.protocol,
                f"{found.open_bytes_per_character:.2f}",
                f"{found.bytes_per_character:.2f}",
                size_name(found.small_bytes),
            ]
            for found in results.memory
        ],
    )


def _times(results: EventResults) -> Table:
    def row(label: str, name: str, protocol: str) -> list[str]:
        workloads = [workload_name(protocol, size) for size in results.sizes]
        return [label, *(_time(results.find(name, workload)) for workload in workloads)]

    return Table(
        ["way", *map(size_name, results.sizes)],
        [row(f"argstream, {protocol}", ARGSTREAM.name, protocol) for protocol in PROTOCOLS]
        + [
            row(route.name, route.name, route.protocol)
            for route in (*results.beside, *results.on_top)
        ],
    )


def _time(found: Measurement | None) -> str:
    return microseconds(found.microseconds, sampled=False) if found else "–"


def _ratio(ratio: float | None) -> str:
    return fraction(ratio) if ratio else "–"


def _growth_ratio(ratio: float | None) -> str:
    return growth(ratio) if ratio else "–"
