"""Why a policy decided as it did, in a sentence for a person and for a model."""

from argstream.judging import Action, Decision
from argstream.policy._watch import Finding
from argstream.policy._wording import argument_words, name_words, shown
from argstream.policy.rules import Rule

__all__ = ["default_reason", "message", "rule_reason"]


def message(tool: str, decision: Decision) -> str:
    """Say that a call is denied: of which tool, by which rule, and why."""
    by = "" if decision.rule is None else f" ({name_words(decision.rule)})"
    return f"a call of {name_words(tool)} is denied by the policy{by}: {decision.reason}"


def default_reason(action: Action) -> str:
    """Say why a call is left to the default."""
    return f"no rule says otherwise than the default, which is {action}"


def rule_reason(rule: Rule, findings: list[Finding]) -> str:
    """Say why a rule decided: its own reason, and what it found."""
    found = " and ".join(_found(finding) for finding in findings)
    if rule.reason and found:
        return f"{rule.reason} ({found})"
    return rule.reason or found or "the rule is about every call of this tool"


def _found(finding: Finding) -> str:
    value, condition = finding.value, finding.condition
    if finding.path:
        subject = f"{argument_words(finding.path)}, {shown(value)},"
    elif isinstance(value, str):
        subject = "the text of the call"
    else:
        subject = "all that the call says"
    if finding.failure is not None:
        error = finding.failure
        raised = name_words(f"{type(error).__name__}: {error}")
        return f"the rule could not be checked, {subject} made it raise {raised}"
    if finding.unclear is not None:
        said = condition.words()
        return f"of {subject} it cannot be told whether it {said}, since {finding.unclear}"
    return f"{subject} {condition.words()}"
