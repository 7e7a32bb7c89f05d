"""``argstream replay``: a recording, played again at the times at which it came."""

import math
from collections.abc import Iterable
from typing import Final

from argstream.adapters import ProtocolName
from argstream.cli._input import UnreadableFile, complain, recording_in
from argstream.cli._interruptions import Interruptions
from argstream.cli._output import bytes_output
from argstream.cli.watch import show_stream
from argstream.recording.reader import waiting
from argstream.sanitise import visible_line

__all__ = ["replay_file", "speed_factor"]

_PACE: Final = 0.03  # seconds for each event of a stream that has no times, as of the mock provider


def speed_factor(speed: str) -> float | None:
    """Give what ``--speed`` means; None, and a complaint, if that is nothing."""
    try:
        factor = math.inf if speed == "max" else float(speed)
    except ValueError:
        factor = 0.0
    if factor > 0:
        return factor
    complain(f"--speed is a number above 0, or max, not {visible_line(speed)}")
    return None


def replay_file(
    file: str, factor: float, protocol: ProtocolName, *, as_json: bool, is_raw: bool
) -> int:
    """Play a recording, or a provider's plain stream, as it would be watched, or its bytes.

    Returns the exit status: 0 if all is well, 1 if a call is not complete or the stream is broken
    or was cut, 2 if it cannot be read.
    """
    try:
        recording = recording_in(file, _PACE)
    except UnreadableFile as error:
        complain(str(error))
        return 2
    if not recording.has_times and not math.isinf(factor):
        complain(
            f"{visible_line(file)} is no recording, so it has no times: "
            f"each event takes {_PACE / factor:.3g} s"
        )
    with Interruptions() as interruptions:
        if is_raw:
            return _write(recording.play(factor, sleep=interruptions.sleep))
        timed = waiting(recording.lines(), factor, interruptions.sleep)
        return show_stream((line for _, line in timed), protocol, as_json=as_json)


def _write(played: Iterable[bytes]) -> int:
    write = bytes_output()
    try:
        for data in played:
            write(data)
    except ConnectionError as error:
        if error.errno is not None:  # not of the recording: the output is closed
            raise
        complain(visible_line(str(error)))
        return 1
    return 0
