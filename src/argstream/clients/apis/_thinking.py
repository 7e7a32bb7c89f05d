"""How much a model may think, in the words of each API."""

import re
from typing import Any, Final, Literal, TypeAlias

from argstream.clients.request import ModelSettings
from argstream.errors import UsageError

__all__ = [
    "Effort",
    "anthropic_thinking",
    "check_while_thinking",
    "effort_of",
    "least_effort_of_openai",
    "reasons",
]

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high"]

_BUDGETS: Final[dict[str, int]] = {"low": 2048, "medium": 8192, "high": 16384}
_LEAST_BUDGET: Final = 1024
# Claude up to 4.5 thinks within a budget of tokens; from 4.6 on it decides by itself, and from 4.7
# on it takes no budget. What is no Claude, or has another name, gets what was asked for.
_BUDGET_ONLY: Final = re.compile(r"claude-(?:[23]\b|(?:opus|sonnet|haiku)-4(?![-.][6-9]\b))")
_EITHER: Final = re.compile(r"claude-(?:opus|sonnet)-4[-.]6")
_CLAUDE: Final = re.compile(r"claude-")
# These think in any case, and refuse to be told not to: all that helps is to ask for little.
_ALWAYS: Final = re.compile(r"claude-(?:fable|mythos|opus-5[-.][5-9]\b)")
# These write notes between calls when they do not think, and refuse what has no place for them.
_WITH_NOTES: Final = re.compile(r"claude-sonnet-5[-.][5-9]\b")
_LEAST_TOP_P: Final = 0.95
# Of OpenAI's models: those that do not think, and those that cannot be kept from it.
_WITHOUT_REASONING: Final = re.compile(r"gpt-[34]|chatgpt-|.*-chat")
_AT_LEAST_LOW: Final = re.compile(r"o\d|.*-codex")
_AT_LEAST_MINIMAL: Final = re.compile(r"gpt-5(?!\.)")


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


def reasons(model: str) -> bool:
    """Say whether a model of OpenAI reasons; a gateway or a tuning may have lengthened its name."""
    return not _WITHOUT_REASONING.match(_own_name(model))


def least_effort_of_openai(model: str) -> Effort | None:
    """Give the effort for who wants no thinking; None for a model that knows of no effort."""
    if not reasons(model):
        return None
    name = _own_name(model)
    if _AT_LEAST_LOW.match(name):
        return "low"
    return "minimal" if _AT_LEAST_MINIMAL.match(name) else "none"


def _own_name(model: str) -> str:
    return model.rpartition("/")[2].removeprefix("ft:")


def anthropic_thinking(model: str, settings: ModelSettings) -> dict[str, Any]:
    """Give the fields of a request to Anthropic."""
    thinking = settings.thinking
    if thinking is None:
        return {}
    if isinstance(thinking, int) and _checked(thinking) == 0:
        return _no_thinking(model)
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
    budget = thinking if isinstance(thinking, int) else _BUDGETS.get(thinking)
    if budget is None:
        raise UsageError(
            f"thinking: {model} takes a number of tokens, or {', '.join(_BUDGETS)}, not "
            f"{thinking!r}"
        )
    if budget < _LEAST_BUDGET:
        raise UsageError(f"thinking: Anthropic wants 0 or at least {_LEAST_BUDGET}, not {budget}")
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def check_while_thinking(model: str, settings: ModelSettings, *, has_tools: bool) -> None:
    """Refuse what Claude refuses from those who let it think.

    Others that have this API may take it, and what is ``extra`` is not looked at.
    """
    if not _CLAUDE.search(model):
        return
    if has_tools and settings.tool_choice not in (None, "auto", "none"):
        raise UsageError(
            f"tool_choice: a Claude that thinks cannot be made to call a tool: use 'auto' instead "
            f"of {settings.tool_choice!r}, or set thinking to 0"
        )
    if settings.temperature not in (None, 1):
        raise UsageError(
            f"temperature: a Claude that thinks takes 1 only, not {settings.temperature}: leave it "
            "out, or set thinking to 0"
        )
    if settings.top_p is not None and settings.top_p < _LEAST_TOP_P:
        raise UsageError(
            f"top_p: a Claude that thinks takes {_LEAST_TOP_P} and more, not {settings.top_p}: "
            "leave it out, or set thinking to 0"
        )


def _no_thinking(model: str) -> dict[str, Any]:
    if _ALWAYS.search(model):
        return {"output_config": {"effort": "low"}}
    type_ = "between_tools" if _WITH_NOTES.search(model) else "disabled"
    return {"thinking": {"type": type_}}


def _checked(tokens: int) -> int:
    if tokens < 0:
        raise UsageError(f"thinking: a number of tokens is 0 or more, not {tokens}")
    return tokens
