"""How often, and how much at once: counted for each client, in bounded memory."""

import json
import sys

import pytest

from argstream.errors import UsageError
from argstream.server.doors import Doors
from argstream.server.limits import Limits
from argstream.server.problems import Problem
from argstream.server.rates import Buckets, Places, Rates, client_of
from tests.server.stand_in import call, serving


class Clock:
    """A clock that a test sets."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


class TestLimits:
    @pytest.mark.parametrize("value", [0, -1, None, "many", float("nan")])
    def test_are_numbers_above_nothing(self, value: object) -> None:
        with pytest.raises(UsageError, match="max_viewers must be a number above 0"):
            Limits(max_viewers=value)  # type: ignore[arg-type] # what the test is about


class TestBuckets:
    def test_let_a_tenth_of_a_minute_come_at_once_and_then_a_steady_stream(self) -> None:
        clock = Clock()
        buckets = Buckets(60, 10, clock)
        assert [buckets.take("ann") for _ in range(6)] == [0] * 6
        assert buckets.take("ann") == pytest.approx(1)
        clock.now += 0.4
        assert buckets.take("ann") == pytest.approx(0.6)
        clock.now += 0.6
        assert buckets.take("ann") == 0
        assert buckets.take("ann") == pytest.approx(1)

    def test_are_full_again_after_a_rest_and_no_fuller(self) -> None:
        clock = Clock()
        buckets = Buckets(60, 10, clock)
        for _ in range(20):
            buckets.take("ann")
        clock.now += 3_600
        assert [bool(buckets.take("ann")) for _ in range(7)] == [False] * 6 + [True]

    def test_let_at_least_one_come(self) -> None:
        buckets = Buckets(1, 10, Clock())
        assert buckets.take("ann") == 0
        assert buckets.take("ann") == pytest.approx(60)

    def test_may_let_all_of_a_minute_come_at_once(self) -> None:
        clock = Clock()
        buckets = Buckets(10, 10, clock, at_once=1.0)
        assert [buckets.take("ann") for _ in range(10)] == [0] * 10
        assert buckets.take("ann") == pytest.approx(6)
        clock.now += 6
        assert buckets.take("ann") == 0

    def test_are_one_for_each_client(self) -> None:
        buckets = Buckets(10, 10, Clock())
        assert [bool(buckets.take(name)) for name in ("ann", "ann", "bob")] == [False, True, False]

    def test_are_so_many_whatever_clients_come(self) -> None:
        buckets = Buckets(10, 100, Clock())
        for number in range(5_000):
            buckets.take(f"address {number}")
            buckets.take("ann")
        assert len(buckets) == 100
        assert buckets.take("ann") > 0  # who asks all the time is not forgotten


class TestPlaces:
    def test_are_so_many_for_one_and_so_many_in_all(self) -> None:
        places = Places("open streams", "max_viewers", 3, 2)
        first = places.take("ann")
        places.take("ann")
        with pytest.raises(Problem, match="max_viewers_per_client=2 is all") as too_many:
            places.take("ann")
        assert (too_many.value.status, too_many.value.code) == (429, "too-many-open-streams")
        places.take("bob")
        with pytest.raises(Problem, match="max_viewers=3 is all that this server") as full:
            places.take("cem")
        assert full.value.status == 503
        assert full.value.headers["retry-after"]
        first.release()
        assert len(places) == 2

    def test_are_given_back_once(self) -> None:
        places = Places("runs", "max_running", 5, 5)
        place = places.take("ann")
        places.take("ann")
        place.release()
        place.release()
        assert len(places) == 1

    def test_may_be_taken_little_by_little_and_are_given_back_together(self) -> None:
        places = Places("bytes", "max_bytes", 10, 10)
        place = places.hold("ann")
        place.grow(6)
        with pytest.raises(Problem):
            place.grow(5)
        place.grow(4)
        assert len(places) == 10
        place.release()
        assert len(places) == 0

    def test_who_has_none_is_forgotten(self) -> None:
        places = Places("runs", "max_running", 1, 1)
        holder = places.take("ann")
        for number in range(1_000):
            with pytest.raises(Problem):
                places.take(f"address {number}")
        holder.release()
        assert sys.getsizeof(places._taken) < 1_000
        assert not places._taken


class TestClients:
    def test_are_users_if_the_host_app_names_them(self) -> None:
        assert client_of({"argstream.user": "ann", "client": ("10.0.0.1", 1)}) == "user ann"

    def test_are_addresses_else(self) -> None:
        named = {client_of({"argstream.user": "", "client": ("10.0.0.1", port)}) for port in (1, 2)}
        assert named == {"address 10.0.0.1"}
        assert client_of({"client": None}) == "address "

    def test_with_ipv6_are_networks(self) -> None:
        named = {client_of({"client": (f"2001:db8:1:2::{n:x}", 1)}) for n in range(1, 99)}
        assert len(named) == 1
        assert client_of({"client": ("2001:db8:1:3::1", 1)}) not in named
        assert client_of({"client": ("no:address", 1)}) == "address no:address"

    def test_with_an_ipv4_address_inside_of_ipv6_are_that_address(self) -> None:
        assert client_of({"client": ("::ffff:192.0.2.1", 1)}) == "address 192.0.2.1"

    def test_have_short_names(self) -> None:
        assert len(client_of({"argstream.user": "\ud800" * 10_000})) < 100
        assert len(client_of({"client": ("a" * 10_000, 1)})) < 120


class TestRates:
    def test_of_starts_are_refused_in_words(self) -> None:
        rates = Rates(Limits(runs_per_minute=6), Clock())
        rates.start("ann")
        words = "runs_per_minute=6 is all .* come again in 10 s"
        with pytest.raises(Problem, match=words) as refused:
            rates.start("ann")
        assert (refused.value.status, refused.value.headers) == (429, {"retry-after": "10"})

    def test_of_wrong_tokens_are_counted_for_each_client_and_refused_in_words(self) -> None:
        rates = Rates(Limits(wrong_tokens_per_minute=2), Clock())
        for client in ("ann", "ann", "bob"):
            rates.wrong_token(client)
        words = "wrong_tokens_per_minute=2 is all that a client may have; come again in 30 s"
        with pytest.raises(Problem, match=words) as refused:
            rates.wrong_token("ann")
        assert (refused.value.status, refused.value.headers) == (429, {"retry-after": "30"})
        rates.request("ann")

    def test_of_requests_are_refused_over_http(self) -> None:
        with serving(limits=Limits(requests_per_minute=30)) as (_, port):
            answers = [call(port) for _ in range(5)]
            healthy = call(port, path="/healthz")
        assert [answer.status for answer in answers] == [200, 200, 200, 429, 429]
        assert answers[-1].problem == "too-many-requests"
        assert answers[-1].headers["retry-after"] == "2"
        assert "requests_per_minute=30" in answers[-1].detail
        assert healthy.status == 200

    def test_of_asking_for_health_are_counted_apart(self) -> None:
        with serving(limits=Limits(requests_per_minute=30)) as (_, port):
            answers = [call(port, path="/healthz") for _ in range(4)]
            other = call(port)
        assert [answer.status for answer in answers] == [200, 200, 200, 429]
        assert other.status == 200

    def test_bound_how_often_a_token_can_be_guessed(self) -> None:
        doors = Doors(token="a-token-nobody-guesses")
        with serving(doors, Limits(requests_per_minute=30)) as (_, port):
            answers = [call(port, authorization=f"Bearer {guess}") for guess in range(5)]
        assert [answer.status for answer in answers] == [401, 401, 401, 429, 429]

    def test_of_one_user_leave_those_of_others_alone(self) -> None:
        doors = Doors(user=lambda request: request.headers["x-user"])
        with serving(doors, Limits(requests_per_minute=10)) as (_, port):
            answers = [call(port, x_user=user) for user in ("ann", "ann", "bob")]
        assert [answer.status for answer in answers] == [200, 429, 200]
        assert json.loads(answers[2].body)["user"] == "bob"
