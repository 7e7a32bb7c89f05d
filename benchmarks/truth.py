"""Whether what a parser shows after each chunk is true.

Speed is worth nothing if the value is wrong. A value so far is true if it is a beginning of the
final value: strings may lack their end, containers their last items, and nothing else differs.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from readers import ARGSTREAM, Peer, Reader, Skipper, drive
from workloads import Workload


@dataclass
class Truth:
    """What one parser showed, counted over all chunks of some documents."""

    parser: str
    chunks: int = 0
    wrong: int = 0
    """Chunks after which something was shown that the rest of the text took back."""
    behind: int = 0
    """Chunks after which less was shown than argstream shows."""
    raised: str = ""
    """The error that ended it, if one did."""
    finals: list[bool] = field(default_factory=list)
    """Whether the complete value was right, for each document and workload."""


def examine(peer: Peer, documents: list[Workload], large: Iterable[Workload]) -> Truth:
    """Look at a parser's value after every chunk; of large documents, at the complete value."""
    truth = Truth(peer.name)
    for document in documents:
        reader = peer.make()
        try:
            drive(reader, _watched(reader, document, truth))
        except Exception as error:  # noqa: BLE001 - whatever a peer raises is a finding
            truth.raised = type(error).__name__
        truth.finals.append(reader.value == json.loads(document.text))
    truth.finals += [_final(peer, workload) == json.loads(workload.text) for workload in large]
    return truth


def _final(peer: Peer, workload: Workload) -> object:
    reader = peer.make()
    if isinstance(reader, Skipper):
        reader.skip("".join(workload.chunks[:-1]))
        reader.feed(workload.chunks[-1])
    else:
        drive(reader, workload.chunks)
    return reader.value


def _watched(reader: Reader, document: Workload, truth: Truth) -> Iterator[str]:
    """Give the chunks; whoever asks for the next one has done with the last."""
    whole = json.loads(document.text)
    ours = ARGSTREAM.make()
    for chunk in document.chunks:
        yield chunk
        drive(ours, [chunk])
        truth.chunks += 1
        # The root is an object, so None can only mean that a peer has nothing to show yet.
        if reader.value is not None and not is_beginning(reader.value, whole):
            truth.wrong += 1
        elif reader.value is None or (
            reader.value != ours.value and is_beginning(reader.value, ours.value)
        ):
            truth.behind += 1


def is_beginning(part: object, whole: object) -> bool:
    """Tell whether more text can make the one value of the other."""
    match part, whole:
        case str(), str():
            return whole.startswith(part)
        case list(), list():
            if not part:
                return True
            last = len(part) - 1
            return len(part) <= len(whole) and (
                part[:last] == whole[:last] and is_beginning(part[last], whole[last])
            )
        case dict(), dict():
            return _is_beginning_of_object(part, whole)
        case _:
            return part == whole


def _is_beginning_of_object(part: dict[str, object], whole: dict[str, object]) -> bool:
    if not part:
        return True
    if list(part) != list(whole)[: len(part)]:
        return False
    *complete, last = part
    return all(part[key] == whole[key] for key in complete) and is_beginning(
        part[last], whole[last]
    )
