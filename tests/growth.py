"""How the cost of a job grows with its size, measured so that a busy machine does not matter."""

import gc
import sys
import time
from collections.abc import Callable
from statistics import median

BOUND = 2.3  # for twice the size: linear, with a margin for noise


def growth(job_of_size: Callable[[int], Callable[[], object]], size: int) -> float:
    """Return how much more CPU the job takes at twice the size, each in its best round.

    A disturbance makes a round slower, never faster, so several rounds are tried.
    """
    return cost_ratio(job_of_size(2 * size), job_of_size(size), BOUND)


def call_growth(job_of_size: Callable[[int], Callable[[], object]], size: int) -> float:
    """Return how many more Python calls the job makes at twice the size: the same in each run."""
    return _calls(job_of_size(2 * size)) / _calls(job_of_size(size))


def _calls(job: Callable[[], object]) -> int:
    count = 0

    def add(*_: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(add)
    try:
        job()
    finally:
        sys.setprofile(None)
    return count


def cost_ratio(job: Callable[[], object], other: Callable[[], object], bound: float) -> float:
    """Return how much more CPU a job takes than another.

    Other processes may fill the cache for a while, and the larger job needs more of it. So if the
    bound is exceeded, the jobs are compared again a little later.
    """
    ratio = _compared(job, other, bound)
    for pause in (1, 3):
        if ratio > bound:
            time.sleep(pause)
            ratio = _compared(job, other, bound)
    return ratio


def _compared(job: Callable[[], object], other: Callable[[], object], bound: float) -> float:
    """Compare the best rounds of both.

    The clock rate may change during one round, so if the bound is exceeded, the rounds are also
    compared in pairs: a real problem shows in most of them.
    """
    rounds: list[tuple[float, float]] = []
    for _ in range(12):
        rounds.append((_seconds(job), _seconds(other)))
        ratio = min(ours for ours, _ in rounds) / min(theirs for _, theirs in rounds)
        if ratio <= bound:
            return ratio
    return median(ours / theirs for ours, theirs in rounds)


def _seconds(job: Callable[[], object]) -> float:
    gc.disable()  # its cost depends on everything else in memory
    start = time.process_time()
    job()
    seconds = time.process_time() - start
    gc.enable()
    return seconds
