"""Histories over HTTP."""

from __future__ import annotations

from tests.support.http_client import Web


def test_histories_have_three_tiers_or_the_one_that_is_asked_for(web: Web, name: str) -> None:
    web.declare(name)
    web.publish(name, "x")
    for path in ("/penstock/history", "/penstock/history/%2F", f"/penstock/history/%2F/{name}"):
        tiers = web.get(path)["tiers"]
        assert [tier["seconds"] for tier in tiers] == [5, 60, 300]
        assert all(len(tier["publish"]) == len(tier["messages"]) == len(tier["closed"]) for tier in tiers)
        assert len(tiers[2]["publish"]) < 100, "it begins with the broker"
        assert [tier["seconds"] for tier in web.get(f"{path}?seconds=60")["tiers"]] == [60]
    answer = web.ask("GET", "/penstock/history?seconds=7")
    assert (answer.status, answer.reason) == (400, "seconds must be one of 5, 60, 300, not 7")
    assert web.ask("GET", "/penstock/history/%2F/nothing").status == 404


def test_samples_are_returned_on_request(web: Web, name: str) -> None:
    web.declare(name)
    web.publish(name, "x")
    query = "msg_rates_age=60&msg_rates_incr=5&lengths_age=60&lengths_incr=5"
    stats = web.get(f"/queues/%2F/{name}?{query}")["message_stats"]
    assert stats["publish"] == 1
    for path in (f"/queues?{query}", f"/exchanges?{query}", f"/overview?{query}", f"/vhosts?{query}"):
        assert web.get(path)
    assert web.ask("GET", f"/queues/%2F/{name}?msg_rates_age=x&msg_rates_incr=5").status == 400
