"""Why a policy decided as it did, in a sentence for a person and for a model."""

from collections.abc import Sequence
from typing import Any, Final

from argstream.jsonstream import JsonPath
from argstream.judging import Action, PolicyDecision
from argstream.policy._watch import Finding, Miss
from argstream.policy._wording import argument_words, name_words, shown
from argstream.policy.arguments import Item
from argstream.policy.rules import Rule

__all__ = ["default_reason", "message", "rule_reason"]

_MOST_MISSES: Final = 3  # of as many rules it is said why they do not match


def message(tool: str, decision: PolicyDecision) -> str:
    """Return the error text of a rejected call: the tool, the rule and the reason."""
    by = "" if decision.rule is None else f" ({name_words(decision.rule)})"
    if decision.action == "ask":
        return (
            f"a call to {name_words(tool)} needs approval by the policy{by}, but this stream has "
            f"no approver: {decision.reason}"
        )
    return f"a call of {name_words(tool)} is denied by the policy{by}: {decision.reason}"


def default_reason(action: Action, misses: Sequence[Miss] = ()) -> str:
    """Say why a call is left to the default, and what kept a more lenient rule from matching."""
    said = f"no rule says otherwise than the default, which is {action}"
    return f"{said} ({_missed(misses)})" if misses else said


def rule_reason(rule: Rule, findings: Sequence[Finding], misses: Sequence[Miss] = ()) -> str:
    """Say why a rule decided: its own reason, and what it found; or what those before it missed."""
    found = " and ".join(_found(finding) for finding in findings) or _missed(misses)
    if rule.reason and found:
        return f"{rule.reason} ({found})"
    return rule.reason or found or "the rule is about every call of this tool"


def _found(finding: Finding) -> str:
    condition = finding.condition
    subject = _subject(finding.path, finding.value)
    if finding.failure is not None:
        raised = _raised(finding.failure)
        return f"the rule could not be checked, {subject} made it raise {raised}"
    if finding.unclear is not None:
        return _untold(subject, condition.words(), finding.unclear)
    return f"{subject} {condition.words()}"


def _missed(misses: Sequence[Miss]) -> str:
    """Say why some rules do not match one and the same value; the same only once."""
    sentences = dict.fromkeys(_missed_by_one(miss) for miss in misses)
    return " and ".join(list(sentences)[:_MOST_MISSES])


def _missed_by_one(miss: Miss) -> str:
    subject = _subject(miss.path, miss.value)
    if miss.unclear is not None and miss.condition is not None:
        return _untold(subject, miss.condition.words(), miss.unclear)
    if miss.condition is not None:
        return f"{subject} {miss.condition.words(negated=True)}"
    if isinstance(miss.step, Item):
        return f"{subject} has no item like that"
    if miss.step is not None:
        return f"{argument_words((*miss.path, miss.step))} did not come"
    return f"{argument_words(miss.path)} is null, as if it had not come"


def _untold(subject: str, said: str, why: str) -> str:
    return f"of {subject} it cannot be told whether it {said}, since {why}"


def _subject(path: JsonPath, value: Any) -> str:
    if path:
        return f"{argument_words(path)}, {shown(value)},"
    return "the text of the call" if isinstance(value, str) else "all that the call says"


def _raised(error: Exception) -> str:
    """Name an exception. It is not ours: even to show it may raise."""
    kind = type(error).__name__
    try:
        return name_words(f"{kind}: {error}")
    except Exception as another:  # noqa: BLE001 - the call is denied for the first, that is enough
        return name_words(f"{kind}, which cannot be shown ({type(another).__name__})")
