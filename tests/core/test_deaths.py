"""Dead-letter headers as values, for formats of any protocol.

Death records: what they say, and RabbitMQ's words for the reasons.
"""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.content.death_entries import deaths_in
from penstock.core import deaths
from penstock.core.deaths import DEATHS_KEPT, DeathRecord, added_headers, pairs_of
from tests.support.dead_letters import died


def test_first_death_is_recorded_in_full() -> None:
    added = added_headers([], died("q", "expired"), "100", ["copy"], False)
    entry = {
        "count": 1,
        "reason": "expired",
        "queue": "q",
        "time": datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC),
        "exchange": "in",
        "routing-keys": ["key", "copy"],
        "original-expiration": "100",
    }
    assert added == {
        "x-death": [entry],
        "x-first-death-exchange": "in",
        "x-first-death-queue": "q",
        "x-first-death-reason": "expired",
        "x-last-death-exchange": "in",
        "x-last-death-queue": "q",
        "x-last-death-reason": "expired",
    }
    assert deaths_in(added["x-death"]) == [entry]


def test_second_death_of_the_same_queue_and_reason_is_counted_and_comes_first() -> None:
    headers: dict[str, object] = {}
    for record in (died("a"), died("b"), died("a")):
        headers |= added_headers(deaths_in(headers.get("x-death")), record, None, [], "x-first-death-reason" in headers)
    deaths = deaths_in(headers["x-death"])
    assert pairs_of(deaths) == [("a", "rejected"), ("b", "rejected")]
    assert [entry["count"] for entry in deaths] == [2, 1]
    assert (headers["x-first-death-queue"], headers["x-last-death-queue"]) == ("a", "a")


def test_first_death_replaces_headers_that_a_publisher_wrote() -> None:
    forged = [{"queue": "q", "reason": "rejected", "count": 7}, {"queue": "r", "reason": "expired", "count": 1}]
    added = added_headers(deaths_in(forged), died("q", again=False), None, [], True)
    assert [(entry["queue"], entry["count"]) for entry in deaths_in(added["x-death"])] == [("q", 1)]
    assert (added["x-first-death-queue"], added["x-last-death-queue"]) == ("q", "q")


def test_entries_are_bounded() -> None:
    deaths = [{"queue": str(n), "reason": "expired", "count": 1} for n in range(DEATHS_KEPT + 3)]
    kept = added_headers(list(deaths), died("q"), None, [], True)["x-death"]
    assert isinstance(kept, list)
    assert len(kept) == DEATHS_KEPT
    assert kept[1:] == deaths[: DEATHS_KEPT - 1]


def test_death_record_has_the_reasons_of_rabbitmq() -> None:
    reasons = {deaths.REJECTED, deaths.EXPIRED, deaths.MAXLEN, deaths.DELIVERY_LIMIT}
    assert reasons == {"rejected", "expired", "maxlen", "delivery_limit"}


def test_death_record_keeps_the_routing_keys_unless_the_queue_sets_a_key() -> None:
    record = DeathRecord("q", deaths.EXPIRED, "x", "k", 1.5)
    assert (record.queue, record.reason, record.exchange, record.routing_key, record.time) == (
        "q", "expired", "x", "k", 1.5,
    )  # fmt: skip
    assert not record.rerouted
    assert DeathRecord("q", deaths.EXPIRED, "x", "k", 1.5, True).rerouted
