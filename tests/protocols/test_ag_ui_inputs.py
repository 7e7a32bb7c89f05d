"""AG-UI: what is meant by what a client sends; of most of it nothing is believed."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from argstream import Approve, Deny
from argstream.errors import UsageError
from argstream.protocols.ag_ui import RunAgentInput, answers_of, known_of, prompt_of, version_of

BODY: dict[str, Any] = {
    "threadId": "t",
    "runId": "r",
    "messages": [],
    "tools": [],
    "state": None,
    "context": [],
}


def asked(**fields: Any) -> RunAgentInput:
    body = {**BODY, **fields}
    return msgspec.json.decode(msgspec.json.encode(body), type=RunAgentInput)


def test_the_version_is_by_what_the_client_names() -> None:
    assert version_of(asked(protocolVersion="1.0").protocol_version) == "1.0"
    assert version_of(asked(protocolVersion="1.7").protocol_version) == "1.0"
    assert version_of(asked().protocol_version) == "0.0.59"


@pytest.mark.parametrize("name", ["threadId", "runId", "messages"])
def test_what_is_needed_is_named(name: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=name):
        msgspec.convert({**BODY, name: None}, RunAgentInput)


def test_the_last_message_is_the_prompt_if_a_person_wrote_it() -> None:
    user = {"role": "user", "content": "Hi"}
    assistant = {"role": "assistant", "content": "Do this!"}
    assert prompt_of(asked(messages=[assistant, user]).messages) == "Hi"
    assert prompt_of(asked(messages=[user, assistant]).messages) is None
    assert prompt_of(asked(messages=[]).messages) is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([{"type": "image", "source": {}}], "type 'image': only text"),
        ([{"type": "text"}], "type 'text'"),
        (["Hi"], "only text"),
        (" ", "empty"),
        ([], "empty"),
        (7, "must be a text"),
        (None, "must be a text"),
    ],
)
def test_what_is_no_text_is_refused(content: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        prompt_of(asked(messages=[{"role": "user", "content": content}]).messages)


@pytest.mark.parametrize("read", [prompt_of, known_of])
def test_a_message_that_is_no_object_is_refused(read: Callable[[Sequence[Any]], Any]) -> None:
    with pytest.raises(UsageError, match="each message must be an object"):
        read(asked(messages=[7]).messages)


def test_what_a_client_has_is_one_line_however_it_was_sent() -> None:
    body = msgspec.json.encode({**BODY, "messages": [{"id": "1"}, {"id": "a\nb"}]})
    pretty = msgspec.json.decode(msgspec.json.format(body), type=RunAgentInput)
    assert known_of(pretty.messages) == b'[{"id":"1"},{"id":"a\\nb"}]'


def test_a_client_that_has_very_many_messages_is_not_told_them_back() -> None:
    assert known_of(asked(messages=[{}] * 1_000).messages) is not None
    assert known_of(asked(messages=[{}] * 1_001).messages) is None


def test_an_answer_is_bound_to_what_was_asked() -> None:
    def answered(payload: Any, status: str = "resolved") -> Any:
        entry = {"interruptId": "d1", "status": status, "payload": payload}
        return answers_of(asked(resume=[entry]).resume or [])

    assert answered({"approved": True}).resolved == {"d1": Approve(digest="d1")}
    edited = {"approved": True, "editedArgs": {"to": "eve"}, "reason": "so"}
    approval = Approve(arguments={"to": "eve"}, digest="d1", reason="so")
    assert answered(edited).resolved == {"d1": approval}
    assert answered({"approved": False, "reason": "no"}).resolved == {"d1": Deny("no")}
    assert set(answered(None, "cancelled").cancelled) == {"d1"}


@pytest.mark.parametrize(
    "payload", [None, True, {}, {"approved": "yes"}, {"approved": True, "edits": {}}, ["approved"]]
)
def test_what_is_no_answer_is_refused_and_says_how_one_looks(payload: Any) -> None:
    entry = {"interruptId": "d1", "status": "resolved", "payload": payload}
    with pytest.raises(UsageError, match=r"interrupt d1 .*approved: true"):
        answers_of(asked(resume=[entry]).resume or [])


def test_a_reason_is_no_novel() -> None:
    entry = {"interruptId": "d1", "status": "resolved"}
    for length in (10_000, 10_001):
        payload = {"approved": False, "reason": "x" * length}
        resume = asked(resume=[{**entry, "payload": payload}]).resume or []
        if length == 10_000:
            assert answers_of(resume).resolved == {"d1": Deny("x" * length)}
        else:
            with pytest.raises(UsageError, match="length <= 10000"):
                answers_of(resume)


def test_an_interrupt_is_answered_once() -> None:
    entries = [
        {"interruptId": "d1", "status": "resolved", "payload": {"approved": True}},
        {"interruptId": "d1", "status": "cancelled"},
    ]
    with pytest.raises(UsageError, match="twice"):
        answers_of(asked(resume=entries).resume or [])
