"""Rules on the arguments of a call, decided when each argument settles: allow, ask or deny.

``Policy`` holds the rules, in Python or from TOML; ``Rule`` is one of them; ``Equals``, ``Prefix``,
``Glob``, ``Regex``, ``Search``, ``Under``, ``Between``, a function of one's own, ``Not`` and
``AllOf`` say what must hold of an argument. ``Policy.open`` gives the judge of one call.
"""

from argstream.judging import Action, PolicyDecision
from argstream.policy._condition import Answer, Condition, Unclear
from argstream.policy.arguments import ANY_ITEM, EVERY_ITEM, Argument, ExactKey
from argstream.policy.check import PolicyCheck
from argstream.policy.conditions import AllOf, Between, Equals, Not, When
from argstream.policy.directory import Under
from argstream.policy.policy import Policy
from argstream.policy.rules import Rule
from argstream.policy.texts import Glob, Prefix, Regex, Search

__all__ = [
    "ANY_ITEM",
    "EVERY_ITEM",
    "Action",
    "AllOf",
    "Answer",
    "Argument",
    "Between",
    "Condition",
    "Equals",
    "ExactKey",
    "Glob",
    "Not",
    "Policy",
    "PolicyCheck",
    "PolicyDecision",
    "Prefix",
    "Regex",
    "Rule",
    "Search",
    "Unclear",
    "Under",
    "When",
]
