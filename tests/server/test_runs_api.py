"""``/api/runs``: begin, follow, come again, decide, stop, forget."""

import asyncio
import time
from collections.abc import Iterable
from typing import Any

import pytest

from argstream import Approve
from argstream import events as ev
from argstream.models import CallTool, Reply, Say, Think
from argstream.protocols.native import Frame
from tests.agent.following import only, send
from tests.server.talking import agent_for, eventually, folded, paused, served

ADDING = Reply(Think("hm"), Say("I add."), CallTool("add", {"a": 1, "b": 2}))
LONG = Reply(Say("word " * 40), CallTool("write", {"path": "a.txt", "content": "line\n" * 40}))


def texts(frames: Iterable[Frame]) -> str:
    """Give what frames say of texts in arguments."""
    views = [view for frame in frames for view in frame.arguments]
    return "".join(view.text for view in only(views, ev.ArgumentDelta))


class TestFollowing:
    def test_a_run_is_begun_and_followed_from_its_snapshot_to_its_end(self) -> None:
        agent, _ = agent_for(ADDING, "It is 3.", delay=0.01)
        with served(agent) as client:
            answer = client.post("/api/runs", {"message": "1 + 2?"})
            run_id = answer.json()["run"]
            assert answer.status_code == 201
            assert answer.headers["location"] == f"/api/runs/{run_id}"
            frames = list(client.frames(run_id))
        assert isinstance(frames[0].event, ev.RunSnapshot)
        assert frames[0].event.prompt == "1 + 2?"
        assert frames[0].session_id == answer.json()["conversation"]
        assert isinstance(frames[-1].event, ev.RunCompleted)
        seqs = [frame.seq for frame in frames]
        assert seqs == sorted(set(seqs))

    def test_who_comes_again_is_told_what_he_missed_and_nothing_twice(self) -> None:
        agent, _ = agent_for(ADDING, LONG, "Done.", delay=0.004)
        with served(agent) as client:
            run_id = client.start()
            live = list(client.frames(run_id))
            whole = folded([frame.event for frame in live])
            for number, frame in enumerate(live[:-1]):
                rest = list(client.frames(run_id, **{"Last-Event-ID": str(frame.seq)}))
                assert rest[0].seq > frame.seq
                seen = [one.event for one in live[: number + 1]]
                assert folded([*seen, *(one.event for one in rest)]) == whole
            everything = client.events(run_id, "?after=0")
            assert folded(everything) == whole

    def test_arguments_are_told_as_they_grow_wherever_one_comes_in(self) -> None:
        agent, _ = agent_for(LONG, "Done.", delay=0.004)
        with served(agent) as client:
            run_id = client.start()
            live = list(client.frames(run_id, "?after=0"))
            places = [number for number, frame in enumerate(live) if texts([frame])]
            for place in places:
                rest = client.frames(run_id, f"?after={live[place].seq}")
                assert texts(live[: place + 1]) + texts(rest) == "a.txt" + "line\n" * 40
        assert len(places) > 3  # it was written while we looked

    def test_a_browser_that_has_seen_all_is_told_not_to_come_again(self) -> None:
        agent, _ = agent_for("Done.")
        with served(agent) as client:
            run_id = client.start()
            *_, last = client.frames(run_id)
            path = f"/api/runs/{run_id}/events"
            assert client.get(path, **{"Last-Event-ID": str(last.seq)}).status_code == 204
            assert client.get(f"{path}?after={last.seq + 100}").status_code == 204

    def test_a_position_that_never_was_gets_the_run_as_it_is(self) -> None:
        agent, _ = agent_for(LONG, "Done.", delay=0.003)
        with served(agent) as client:
            run_id = client.start()
            frames = list(client.frames(run_id, "?after=100000"))
        assert isinstance(frames[0].event, ev.RunSnapshot)
        assert isinstance(frames[-1].event, ev.RunCompleted)

    @pytest.mark.parametrize("after", ["-1", "x", "1e3", "٣", "9" * 30, ""])
    def test_a_position_that_is_no_number_is_refused(self, after: str) -> None:
        agent, _ = agent_for("Done.")
        with served(agent) as client:
            answer = client.get(f"/api/runs/{client.start()}/events?after={after}")
        assert answer.status_code == 422
        assert "after is a number" in answer.json()["detail"]

    def test_to_go_away_is_not_to_stop(self) -> None:
        agent, effects = agent_for(LONG, "Done.", delay=0.003)
        with served(agent) as client:
            run_id = client.start()
            with client.http.stream("GET", f"/api/runs/{run_id}/events") as answer:
                next(answer.iter_raw())
            client.until(run_id, "completed")
        assert len(effects.seen) == 1


class TestDeciding:
    def test_what_was_approved_runs_and_the_run_goes_on(self) -> None:
        with paused() as (client, run_id, effects):
            assert client.decide(run_id, decision="approve", reason="fine").status_code == 202
            events = client.events(run_id)
        assert effects.seen == [("send", {"to": "ada"})]
        assert folded(events).status == "completed"

    def test_what_was_denied_does_not_and_the_model_is_told_why(self) -> None:
        with paused(send("ada"), "Then not.") as (client, run_id, effects):
            client.decide(run_id, decision="deny", reason="not to her")
            client.until(run_id, "completed")
            events = client.events(run_id, "?after=0")
        assert effects.seen == []
        [failed] = only(events, ev.ToolCallFailed)
        assert "not to her" in str(failed.error)

    def test_what_was_edited_runs_as_it_was_edited(self) -> None:
        with paused() as (client, run_id, effects):
            wrong = client.decide(run_id, decision="approve", arguments={"to": 7})
            assert wrong.status_code == 422
            assert "not valid" in wrong.json()["detail"]
            client.decide(run_id, decision="approve", arguments={"to": "bob"})
            client.until(run_id, "completed")
            [decided] = only(client.events(run_id, "?after=0"), ev.ApprovalDecided)
        assert effects.seen == [("send", {"to": "bob"})]
        assert decided.decision == "edited"

    def test_deciding_on_some_keeps_the_run_waiting_for_the_rest(self) -> None:
        agent, effects = agent_for(Reply(send("ada"), send("bob")), "Sent.")
        with served(agent) as client:
            run_id = client.start()
            first, second = client.until(run_id, "paused")["pending"]
            decision = {"decision": "approve", "digest": first["digest"]}
            path = f"/api/runs/{run_id}/decisions"
            client.post(path, {"decisions": {first["call_id"]: decision}})
            eventually(lambda: effects.seen)
            assert [one["call_id"] for one in client.until(run_id, "paused")["pending"]] == [
                second["call_id"]
            ]
            client.decide(run_id, decision="approve")
            client.until(run_id, "completed")
        assert effects.seen == [("send", {"to": "ada"}), ("send", {"to": "bob"})]

    def test_what_is_always_approved_is_not_asked_about_again_in_the_conversation(self) -> None:
        agent, effects = agent_for(send("ada"), "Sent.", send("bob"), "Sent.", send("eve"), "No.")
        with served(agent) as client:
            run_id = client.start(conversation="talk")
            client.until(run_id, "paused")
            client.decide(run_id, decision="approve", always="session")
            client.until(run_id, "completed")
            client.until(client.start(conversation="talk"), "completed")
            client.until(client.start(conversation="another"), "paused")
        assert effects.seen == [("send", {"to": "ada"}), ("send", {"to": "bob"})]

    def test_what_is_forged_replayed_or_late_is_forbidden(self) -> None:
        with paused(send("ada"), send("bob"), "Sent.") as (client, run_id, effects):
            call_id = client.show(run_id)["pending"][0]["call_id"]
            path = f"/api/runs/{run_id}/decisions"

            def status(call: str, digest: str) -> int:
                decision = {"decision": "approve", "digest": digest}
                return client.post(path, {"decisions": {call: decision}}).status_code

            digest = client.show(run_id)["pending"][0]["digest"]
            other = client.start()
            client.until(other, "paused")
            foreign = client.show(other)["pending"][0]["digest"]
            assert status(call_id, "") == 403
            assert status(call_id, foreign) == 403
            assert status("another", digest) == 403
            assert effects.seen == []
            assert status(call_id, digest) == 202
            assert status(call_id, digest) == 403  # used
            client.until(run_id, "completed")
            assert status(call_id, digest) == 403
        assert effects.seen == [("send", {"to": "ada"})]

    def test_a_denial_needs_the_digest_as_well(self) -> None:
        with paused() as (client, run_id, _):
            assert client.decide(run_id, decision="deny", digest="0" * 64).status_code == 403
            answer = client.post(f"/api/runs/{run_id}/decisions", {"decisions": {}})
            assert answer.status_code == 422

    def test_what_nobody_decides_in_time_is_denied_and_the_run_goes_on(self) -> None:
        agent, effects = agent_for(send("ada"), "Too late.", approval_timeout=0.4)
        with served(agent) as client:
            run_id = client.start()
            [request] = client.until(run_id, "paused")["pending"]
            client.until(run_id, "completed")
            decision = {"decision": "approve", "digest": request["digest"]}
            late = client.post(
                f"/api/runs/{run_id}/decisions", {"decisions": {request["call_id"]: decision}}
            )
            assert late.status_code == 403
        assert effects.seen == []


class TestStopping:
    def test_a_run_that_goes_on_is_stopped_and_says_why(self) -> None:
        agent, effects = agent_for(LONG, "Done.", delay=0.02)
        with served(agent) as client:
            run_id = client.start()
            assert client.post(f"/api/runs/{run_id}/stop", {"reason": "enough"}).status_code == 204
            client.until(run_id, "stopped")
            assert client.post(f"/api/runs/{run_id}/stop").status_code == 204  # as it is wanted
            [stopped] = only(client.events(run_id, "?after=0"), ev.RunStopped)
        assert stopped.reason == "enough"
        assert effects.seen == []

    def test_so_is_one_that_waits_for_a_person(self) -> None:
        with paused() as (client, run_id, effects):
            client.post(f"/api/runs/{run_id}/stop")
            client.until(run_id, "stopped")
        assert effects.seen == []

    def test_a_run_that_goes_on_cannot_be_forgotten_one_that_is_over_can(self) -> None:
        agent, _ = agent_for(LONG, "Done.", delay=0.01)
        with served(agent) as client:
            run_id = client.start()
            path = f"/api/runs/{run_id}"
            assert client.delete(path).status_code == 409
            client.post(f"{path}/stop")
            client.until(run_id, "stopped")
            assert client.delete(path).status_code == 204
            assert client.get(path).status_code == 404
            assert client.get(f"{path}/events").status_code == 404


class TestListing:
    def test_who_has_the_list_already_is_told_no_more_than_that(self) -> None:
        with paused() as (client, run_id, _):
            path = "/api/runs?limit=7"
            listed = eventually(
                lambda: (
                    one if not (one := client.get(path)).json()["runs"][0]["is_driven"] else None
                )
            )
            assert listed.headers["cache-control"] == "private, no-cache"
            kept = {"if-none-match": listed.headers["etag"]}
            again = client.get(path, **kept)
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == listed.headers["etag"]
            assert again.headers["cache-control"] == "private, no-cache"
            assert client.get("/api/runs?status=failed", **kept).json() == {"runs": []}
            client.decide(run_id, decision="approve")
            changed = client.get(path, **kept)
            assert changed.status_code == 200
            assert changed.headers["etag"] != listed.headers["etag"]

    def test_runs_are_listed_the_newest_first_by_status_and_conversation(self) -> None:
        agent, _ = agent_for("One.", "Two.", send(), "Three.")
        with served(agent) as client:
            first, second = client.start(conversation="a"), None
            client.until(first, "completed")
            second = client.start(conversation="a")
            client.until(second, "completed")
            third = client.start(conversation="b")
            client.until(third, "paused")

            def ids(query: str = "") -> list[str]:
                return [run["run"] for run in client.get(f"/api/runs{query}").json()["runs"]]

            assert ids() == [third, second, first]
            assert ids("?status=completed") == [second, first]
            assert ids("?conversation=a&limit=1") == [second]
            assert client.get("/api/runs?status=nice").status_code == 422
            assert client.get("/api/runs?limit=0").status_code == 422

    def test_who_drives_a_run_is_not_told(self) -> None:
        agent, _ = agent_for(LONG, "Done.", delay=0.01)
        with served(agent) as client:
            told = client.show(client.start())
        assert told["is_driven"] is True
        assert "owner" not in told


class TestConversations:
    def test_the_next_message_goes_on_with_what_was_said(self) -> None:
        agent, _ = agent_for("Hello.", lambda request: f"{len(request.messages)} messages.")
        with served(agent) as client:
            client.until(client.start("Hi", "talk"), "completed")
            second = client.start("And?", "talk")
            client.until(second, "completed")
            assert "3 messages." in str(client.events(second))

    def test_while_a_run_goes_on_the_next_message_must_wait(self) -> None:
        agent, _ = agent_for(send(), "Sent.", "Then this.")
        with served(agent) as client:
            run_id = client.start(conversation="talk")
            client.until(run_id, "paused")
            answer = client.post("/api/runs", {"message": "And?", "conversation": "talk"})
            assert answer.status_code == 409
            assert run_id in answer.json()["detail"]
            client.decide(run_id, decision="approve")
            client.until(run_id, "completed")
            client.start("And?", "talk")

    @pytest.mark.parametrize(
        ("body", "status"),
        [
            ({"message": ""}, 422),
            ({"message": " \n"}, 422),
            ({"massage": "Hi"}, 422),
            ({"message": 1}, 422),
            ({"message": "Hi", "conversation": "x" * 300}, 422),
            ([], 422),
        ],
    )
    def test_a_message_that_is_none_is_refused(self, body: Any, status: int) -> None:
        agent, _ = agent_for("Hello.")
        with served(agent) as client:
            answer = client.post("/api/runs", body)
        assert (answer.status_code, answer.headers["content-type"]) == (
            status,
            "application/problem+json",
        )


def test_conversations_of_the_same_name_of_two_users_are_others() -> None:
    agent, _ = agent_for("A secret.", lambda request: f"{len(request.messages)} messages.")
    with served(agent, user=lambda request: request.headers["x-user"]) as client:
        ada, eve = client.named("ada"), client.named("eve")
        ada.until(ada.start("Hi", "talk"), "completed")
        run_id = eve.start("Hi", "talk")
        eve.until(run_id, "completed")
        assert "1 messages." in str(eve.events(run_id))


class TestSurviving:
    def test_a_run_that_its_process_has_left_goes_on_here(self) -> None:
        agent, effects = agent_for(LONG, "Done.", delay=0.01, claim_seconds=1.0)

        async def leave() -> str:
            run = agent.run_stream("Go")

            async def follow() -> None:
                async for _ in run:
                    pass

            task = asyncio.create_task(follow())
            await run.begun()
            task.cancel()
            await asyncio.wait([task])
            return run.run_id

        run_id = asyncio.run(leave())
        again, effects = agent_for(LONG, "Done.", store=agent.store)
        with served(again) as client:
            client.get("/healthz")
            client.until(run_id, "completed")
            events = client.events(run_id, "?after=0")
        assert len(only(events, ev.ToolCallCompleted)) == 1
        assert len(effects.seen) == 1
        assert "".join(event.text for event in only(events, ev.TextDelta)).endswith("Done.")

    def test_what_was_decided_while_no_server_ran_is_carried_out(self) -> None:
        agent, _ = agent_for(send("ada"), "Sent.")
        store = agent.store
        assert store is not None
        with served(agent) as client:
            run_id = client.start()
            client.until(run_id, "paused")

        async def decide() -> None:
            info = await store.info(run_id)
            [call_id] = info.pending
            await store.decide(run_id, {call_id: Approve(digest=info.pending[call_id])})

        asyncio.run(decide())
        again, effects = agent_for("Sent.", store=store)
        with served(again) as client:
            client.until(run_id, "completed")
        assert effects.seen == [("send", {"to": "ada"})]


def test_the_bridge_of_source_004_is_live_and_starts_tools_before_their_blocks() -> None:
    agent, _ = agent_for(LONG, "Done.", delay=0.005)
    began = time.monotonic()
    times: dict[str, float] = {}
    message = {"message": "Go"}
    with (
        served(agent) as client,
        client.http.stream("POST", "/api/converse", json=message) as answer,
    ):
        for line in answer.iter_lines():
            for key in ("text", "tool_start", "block", "tool_result", "done"):
                if line.startswith(f'data: {{"{key}"'):
                    times.setdefault(key, time.monotonic() - began)
    assert list(times) == ["text", "tool_start", "block", "tool_result", "done"]
    assert times["block"] - times["tool_start"] > 0.1  # it was written meanwhile
    assert times["tool_start"] - times["text"] > 0.1


def test_a_conversation_over_the_bridge_goes_on_by_the_id_that_it_told() -> None:
    agent, _ = agent_for("Hello.", lambda request: f"{len(request.messages)} messages.")
    with served(agent) as client:
        done = client.converse("Hi")[-1]["done"]
        assert done["status"] == "completed"
        again = client.converse("And?", conversation=done["conversation"])
    assert "".join(one.get("text", "") for one in again) == "3 messages."
    assert again[-1]["done"]["conversation"] == done["conversation"]
