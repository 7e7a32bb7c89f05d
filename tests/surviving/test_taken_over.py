"""Two processes cannot drive one run: not those that want it at once, nor one that was away."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

import pytest

from argstream.agent import Agent
from argstream.log import Store
from tests.agent.following import complete
from tests.stores.test_racing import Racer
from tests.surviving.checks import check_executions, check_order, events_of
from tests.surviving.lanes import Lanes
from tests.surviving.outside import Outside
from tests.surviving.parts import Place
from tests.surviving.trials import IS_SOAK, Trials, place_in

STEP = 1 if IS_SOAK else 12
RACES = 250 if IS_SOAK else 25

pytestmark = pytest.mark.hypothesis  # so that `make soak` has all of it


def test_a_process_that_was_away_for_too_long_does_nothing_more(
    kind: str, lanes: Lanes, tmp_path: Path
) -> None:
    trials = Trials(lanes, kind, "letters", tmp_path)
    trials.take_over(count(STEP // 2 + 1, STEP))
    assert sum(trials.cut_off) > 0
