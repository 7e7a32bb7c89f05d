"""How the cost of a job grows with its size, measured so that a busy machine does not matter."""

import gc
import time
from collections.abc import Callable

BOUND = 2.3  # for twice the size: linear, and something for the noise


def growth(job_of_size: Callable[[int], Callable[[], object]], size: int) -> float:
    """Return how much more CPU the job takes at twice the size, each in its best round.

    A disturbance makes a round slower, never faster, so a few more rounds are tried before the
    bound counts as broken.
    """
    return cost_ratio(job_of_size(2 * size), job_of_size(size), BOUND)


def cost_ratio(job: Callable[[], object], other: Callable[[], object], bound: float) -> float:
    """Return how much more CPU a job takes than another, each in its best round."""
    best = [float("inf")] * 2
    for _ in range(8):
        for index, one in enumerate((job, other)):
            gc.disable()  # its price is that of everything else that the tests keep in memory
            start = time.process_time()
            one()
            best[index] = min(best[index], time.process_time() - start)
            gc.enable()
        if best[0] / best[1] <= bound:
            break
    return best[0] / best[1]
