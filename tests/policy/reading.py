"""Feed a call to a policy as a stream does, and find when it is decided."""

from collections.abc import Iterable
from typing import NamedTuple

from argstream.events import ArgumentsError, PolicyDecision
from argstream.jsonstream import Parser
from argstream.policy import Policy, PolicyCheck


class Outcome(NamedTuple):
    decision: PolicyDecision
    after: object  # the path of the value whose end decided; "open" before any value
    error: ArgumentsError | None = None


def read(policy: Policy, chunks: Iterable[str], tool: str = "tool") -> Outcome:
    """Check a call whose arguments come in these chunks, up to the decision.

    A second check gets each fragment alone. Both must decide alike, at the same fragment.
    """
    check, by_one = policy.open(tool), policy.open(tool)
    assert check is not None
    assert by_one is not None
    if (decision := decision_of(check)) is not None:
        return Outcome(decision, "open", check.error)
    parser = Parser(unique_keys=True)
    for chunk in chunks:
        fragments = parser.feed(chunk)
        refusal = check.feed(fragments)
        for seen, fragment in enumerate(fragments, 1):
            refusal_by_one = by_one.feed([fragment])
            if (decision := decision_of(by_one)) is None:
                continue
            assert check.policy_decision == decision
            assert check.feed(fragments) is None  # later ones change nothing
            if refusal is None:
                assert refusal_by_one is None
                return Outcome(decision, fragment.path)
            assert refusal_by_one is not None
            assert (refusal.seen, refusal.text) == (seen, None)
            assert refusal.error == refusal_by_one.error
            return Outcome(decision, fragment.path, refusal.error)
        assert (check.policy_decision, refusal) == (None, None)
    raise AssertionError("the arguments are complete, and nothing is decided")


def decision_of(check: PolicyCheck) -> PolicyDecision | None:
    return check.policy_decision  # a function, so that type checkers do not narrow it
