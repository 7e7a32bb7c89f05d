"""What differs between the servers that speak OpenAI's Chat Completions.

All of them refuse with status 400 or 422 what they do not know, but not the same. What is said here
was seen in their documentation, or in reports of those whom they refused.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from argstream.clients.apis._thinking import Effort, least_effort_of_openai

__all__ = ["CHAT_HABITS", "ChatHabits"]


class ChatHabits(Struct, frozen=True, kw_only=True):
    """What differs between the servers of this API. What is not said works with most."""

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system_role: Literal["system", "developer"] = "system"
    tells_usage: bool = True
    """Whether it knows ``stream_options``: then it says what a turn cost."""
    takes_back: frozenset[str] = frozenset(
        {"reasoning_content", "reasoning", "reasoning_details", "extra_content"}
    )
    """Which fields of its answers that no standard has it takes back. Others may be refused."""
    wants_thinking: str = ""
    """A field of thinking that each message of the assistant must have: DeepSeek refuses one that
    was made elsewhere without."""
    thinking_field: Literal["reasoning_effort", "reasoning"] = "reasoning_effort"
    """Where it is told how much to think: OpenRouter has an object for it."""
    no_thinking: Mapping[str, Any] | None = None
    """What it is told if it shall not think, where that is no effort: DeepSeek has a switch."""
    least_effort: Callable[[str], Effort | None] = lambda _: "none"
    """What a model is told that shall not think; None: nothing, since it knows of no effort."""
    fixed_thinking: str = ""
    """Which of its models cannot be told how much to think, and refuse it: a regular expression for
    how their names begin."""
    silent_with_tools: str = ""
    """Which of its models do not think here when they have tools, and have to be told so: they
    refuse tools otherwise. OpenAI's newer ones do so only in its Responses API."""
    content_with_calls: bool = True
    """Whether a message of the assistant may have a text beside its calls."""
    call_ids: str = r"(?s:.+)"
    """Which ids of calls it takes: a regular expression for the whole of one."""
    bridge: str = ""
    """What the assistant is made to say between results and a text of the user. Mistral refuses a
    user who speaks right after a tool."""


CHAT_HABITS: Final[Mapping[str, ChatHabits]] = {
    "openai": ChatHabits(
        max_tokens_field="max_completion_tokens",
        system_role="developer",
        takes_back=frozenset(),
        least_effort=least_effort_of_openai,
        # From 5.2 on; those that only chat do not think at all.
        silent_with_tools=r"(?:ft:)?gpt-(?:5\.(?:[2-9]|\d\d)|[6-9])(?!\d)(?!.*-chat)",
        call_ids=r"(?s:.{1,40})",
    ),
    "deepseek": ChatHabits(
        takes_back=frozenset({"reasoning_content"}),
        wants_thinking="reasoning_content",
        no_thinking={"thinking": {"type": "disabled"}},
    ),
    "openrouter": ChatHabits(thinking_field="reasoning"),
    "groq": ChatHabits(max_tokens_field="max_completion_tokens", takes_back=frozenset()),
    "mistral": ChatHabits(
        tells_usage=False,  # it does so unasked
        takes_back=frozenset(),
        # Some of its models take both, some answer with 422, and none misses the text.
        content_with_calls=False,
        call_ids=r"[a-zA-Z0-9]{9}",
        bridge="Understood.",
    ),
    "xai": ChatHabits(
        takes_back=frozenset({"reasoning_content"}),
        # Up to 4.2, but for a few.
        fixed_thinking=r"grok-(?:2|3(?!-mini)|4(?!\.)|4\.[0-2](?!.*-multi-agent)|code-fast)",
    ),
}
"""Of the servers that are known, by the name of their provider."""
