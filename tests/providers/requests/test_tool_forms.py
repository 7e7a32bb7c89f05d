"""What is said of tools in the same way to every API."""

import pytest

from argstream import UsageError
from tests.providers.requests.asking import APIS, Api, body, user


@pytest.mark.parametrize("api", APIS.values(), ids=APIS)
class TestTheChoice:
    def test_a_tool_that_is_not_there_cannot_be_chosen(self, api: Api) -> None:
        """What OpenAI calls ``required`` is ``any``."""
        with pytest.raises(UsageError, match="no tool is called 'required': say auto, any, none"):
            body(api, user("hi"), tool_choice="required")

    def test_one_of_the_provider_can(self, api: Api) -> None:
        extra = {"tools": [{"type": "web_search", "name": "web_search"}]}
        assert body(api, user("hi"), tool_choice="web_search", extra=extra)["tool_choice"]

        assert "tool_choice" not in body(api, user("hi"), tools=(), tool_choice="add")

    def test_what_is_extra_wins_over_everything(self, api: Api) -> None:
        extra = {"stream": False, "max_tokens": 7, "metadata": {"user_id": "u"}}
        assert extra.items() <= body(api, user("hi"), max_tokens=5, extra=extra).items()
