"""How often, and how much at once: counted for each client, in bounded memory."""

import json
import time
from typing import Any

import pytest

from argstream.errors import UsageError
from argstream.runs import MemoryStore
from argstream.server import AgentServer, Limits
from tests.agent.following import send
from tests.server.raw import Asked, exchange, scope_of, statuses
from tests.server.talking import agent_for, eventually, served

RUNS = "/api/runs"


class Clock:
    """A clock that a test sets forward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed = 0.0
        frozen = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: frozen + self.passed)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def limited(per_minute: int, **more: Any) -> AgentServer:
    return Asked(limits=Limits(requests_per_minute=per_minute, **more)).app


def asking(app: AgentServer, *clients: str, path: str = RUNS) -> list[int]:
    """Have clients ask, one after the other."""
    return statuses(app, *(scope_of(path, client=client) for client in clients))


@pytest.mark.parametrize("value", [0, -1, None, "many", float("nan")])
def test_limits_are_numbers_above_nothing(value: Any) -> None:
    with pytest.raises(UsageError, match="max_viewers must be a number above 0"):
        Limits(max_viewers=value)


class TestRates:
    def test_let_a_tenth_of_a_minute_come_at_once_and_then_a_steady_stream(
        self, clock: Clock
    ) -> None:
        app = limited(60)
        assert asking(app, *["ann"] * 7) == [200] * 6 + [429]
        for seconds, expected in ((0.4, 429), (0.6, 200), (0.9, 429)):
            clock.passed += seconds
            assert asking(app, "ann") == [expected]
        clock.passed += 3_600
        assert asking(app, *["ann"] * 7) == [200] * 6 + [429], "full again, and no fuller"

    def test_say_when_to_come_again(self, clock: Clock) -> None:
        app = limited(1)
        assert asking(app, "ann") == [200], "at least one may come"
        clock.passed += 20
        head, body = exchange(app, scope_of(RUNS, client="ann"))
        problem = json.loads(body["body"])
        assert dict(head["headers"])[b"retry-after"] == b"40"
        assert problem["type"] == "urn:argstream:too-many-requests"
        assert "requests_per_minute=1 is all" in problem["detail"]
        assert "come again in 40 s" in problem["detail"]

    def test_of_asking_for_health_are_counted_apart(self) -> None:
        app = limited(10)
        assert asking(app, "ann", "ann") == [200, 429]
        assert asking(app, "ann", "ann", path="/healthz") == [200, 429]

    def test_bound_how_often_a_token_can_be_guessed(self) -> None:
        app = Asked(token="a-token-nobody-guesses", limits=Limits(requests_per_minute=30)).app
        guesses = (scope_of(RUNS, authorization=f"Bearer {guess}") for guess in range(5))
        assert statuses(app, *guesses) == [401, 401, 401, 429, 429]

    def test_of_one_user_leave_those_of_others_alone(self) -> None:
        limits = Limits(requests_per_minute=10)
        app = Asked(user=lambda request: request.headers["x-user"], limits=limits).app
        names = ("ann", "ann", "bob", "a" * 200, "a" * 200, f"{'a' * 199}b")
        asked = (scope_of("/no/such", x_user=name) for name in names)
        assert statuses(app, *asked) == [404, 429, 404, 404, 429, 404]

    @pytest.mark.parametrize(
        ("one", "other", "is_same"),
        [
            ("10.0.0.1", "10.0.0.1", True),
            ("10.0.0.1", "10.0.0.2", False),
            # Who has an IPv6 address has a network of them.
            ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
            ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
            ("::ffff:192.0.2.1", "192.0.2.1", True),
            ("no:address", "no:other", False),
        ],
    )
    def test_are_for_each_client(self, one: str, other: str, *, is_same: bool) -> None:
        assert asking(limited(10), one, other) == [200, 429 if is_same else 200]

    def test_are_remembered_for_so_many_clients(self) -> None:
        app = limited(10, max_clients=2)
        assert asking(app, "ann", "bob", "ann", "cem") == [200, 200, 429, 200]
        assert asking(app, "ann", "bob") == [429, 200], "who asked longest ago is forgotten"


REFUSED = [
    (Limits(max_viewers=1), 503, "too-many-open-streams", "max_viewers=1 is all that this server"),
    (
        Limits(max_viewers_per_client=1),
        429,
        "too-many-open-streams",
        "max_viewers_per_client=1 is all that a client",
    ),
    (Limits(max_running=1), 503, "too-many-runs", "max_running=1 is all"),
    (Limits(max_running_per_client=1), 429, "too-many-runs", "max_running_per_client=1 is all"),
    (Limits(runs_per_minute=10), 429, "too-many-starts", "runs_per_minute=10 is all"),
]


@pytest.mark.parametrize(("limits", "status", "code", "detail"), REFUSED)
def test_what_is_over_a_limit_is_refused_in_words_and_begins_nothing(
    limits: Limits, status: int, code: str, detail: str
) -> None:
    agent, _ = agent_for("word " * 500, "Done.", delay=0.01, store=MemoryStore())
    with served(agent, limits=limits) as client:
        run_id = client.start()
        with client.http.stream("GET", f"/api/runs/{run_id}/events"):
            for _ in range(2):
                refused = client.post("/api/converse", {"message": "Hi"})
                assert refused.status_code == status
                assert refused.json()["type"] == f"urn:argstream:{code}"
                assert detail in refused.json()["detail"]
                assert int(refused.headers["retry-after"]) > 0
        assert [run["run"] for run in client.get("/api/runs").json()["runs"]] == [run_id]


def test_a_place_is_free_again_when_a_run_rests() -> None:
    agent, _ = agent_for(send("ada"), "Done.")
    with served(agent, limits=Limits(max_running=1)) as client:
        client.until(client.start(), "paused")
        eventually(lambda: client.post(RUNS, {"message": "Hi"}).status_code == 201)
