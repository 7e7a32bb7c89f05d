"""How much a model may think, in the words of each API."""

import re
from typing import Any, Final, Literal, TypeAlias

from argstream.clients.request import ModelSettings
from argstream.errors import UsageError

__all__ = ["Effort", "anthropic_thinking", "effort_of"]

Effort: TypeAlias = Literal["none", "low", "medium", "high"]

_BUDGETS: Final[dict[str, int]] = {"low": 2048, "medium": 8192, "high": 16384}
_LEAST_BUDGET: Final = 1024
# Claude up to 4.5 thinks within a budget of tokens; from 4.6 on it decides by itself, and from 4.7
# on it takes no budget. What is no Claude, or has another name, gets what was asked for.
_BUDGET_ONLY: Final = re.compile(r"claude-(?:[23]\b|(?:opus|sonnet|haiku)-4(?![-.][6-9]\b))")
_EITHER: Final = re.compile(r"claude-(?:opus|sonnet)-4[-.]6")
_CLAUDE: Final = re.compile(r"claude-")


def effort_of(settings: ModelSettings) -> Effort | None:
    """Give an effort, also for a number of tokens: whoever allows many wants much."""
    thinking = settings.thinking
    if not isinstance(thinking, int):
        return thinking
    if _checked(thinking) == 0:
        return "none"
    if thinking <= _BUDGETS["low"]:
        return "low"
    return "medium" if thinking <= _BUDGETS["medium"] else "high"


def anthropic_thinking(model: str, settings: ModelSettings) -> dict[str, Any]:
    """Give the fields of a request to Anthropic."""
    thinking = settings.thinking
    if thinking is None:
        return {}
    if isinstance(thinking, int) and _checked(thinking) == 0:
        return {"thinking": {"type": "disabled"}}
    by_budget = isinstance(thinking, int)
    if _BUDGET_ONLY.search(model):
        by_budget = True
    elif _CLAUDE.search(model) and not _EITHER.search(model):
        by_budget = False
    if not by_budget:
        # Without display, the newer models think in silence.
        shown = {"display": "summarized"} if _CLAUDE.search(model) else {}
        effort = effort_of(settings)
        return {"thinking": {"type": "adaptive", **shown}, "output_config": {"effort": effort}}
    budget = thinking if isinstance(thinking, int) else _BUDGETS[thinking]
    if budget < _LEAST_BUDGET:
        raise UsageError(f"thinking: Anthropic wants 0 or at least {_LEAST_BUDGET}, not {budget}")
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _checked(tokens: int) -> int:
    if tokens < 0:
        raise UsageError(f"thinking: a number of tokens is 0 or more, not {tokens}")
    return tokens
