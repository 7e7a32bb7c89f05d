"""Rules that allow, ask about or deny a call by its arguments, as soon as each is complete.

A ``Policy`` is a list of ``Rule`` objects, written in Python or TOML. Conditions on arguments are
``Equals``, ``Prefix``, ``Glob``, ``Regex``, ``Search``, ``Under``, ``Between``, ``Not``, ``AllOf``
and your own functions. ``Policy.open`` returns the check of one call.
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
