"""Rules on the arguments of a call, decided when each argument settles: allow, ask or deny.

``Policy`` holds the rules, in Python or from TOML; ``Rule`` is one of them; ``Equals``, ``Prefix``,
``Glob``, ``Regex``, ``Search``, ``Under``, ``Between``, a function of one's own, ``Not`` and
``AllOf`` say what must hold of an argument. ``Policy.open`` gives the check of one call.
"""

from argstream.events import Action, PolicyDecision
from argstream.policy._check import PolicyCheck
from argstream.policy._conditions import (
    AllOf,
    Answer,
    Between,
    Condition,
    Equals,
    Not,
    Regex,
    Search,
    Undecided,
    When,
)
from argstream.policy._paths import Glob, Prefix, Under
from argstream.policy._policy import Policy
from argstream.policy._rules import ANY_ITEM, EVERY_ITEM, Argument, ExactKey, Rule

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
    "Undecided",
    "Under",
    "When",
]
