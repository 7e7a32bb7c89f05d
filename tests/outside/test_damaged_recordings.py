"""Damaged recordings raise nothing, and each call has one verdict (invariants 9 and 10)."""

from fuzz.fuzz_recordings import Cases

from tests.outside.recordings import Recording

CASES = 600  # `make soak-recordings` plays 100,000


def test_damaged_recordings_give_each_call_one_verdict(all_recordings: list[Recording]) -> None:
    cases = Cases(all_recordings)
    for number in range(CASES):
        cases.play(number)
