"""Terms of a link of federation, from its spec."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.bridges.link_terms import LinkTerms, terms_of, uris_of
from penstock.bridges.upstream_exchange import queue_name

LINK = {
    "kind": "exchange", "resource": "x", "upstream": "far", "cluster": "here", "consumer_tag": "federation-link-up",
    "type": "topic", "durable": True, "auto_delete": False, "arguments": {"alternate-exchange": "lost"},
}  # fmt: skip


def spec_of(vhost: str = "/", link: dict[str, Any] | None = None, **value: object) -> dict[str, Any]:
    given = {"uri": "amqp://host", **{key.replace("_", "-"): each for key, each in value.items()}}
    return {"vhost": vhost, "run_as": "anna", "value": given, "link": LINK | (link or {})}


def test_missing_keys_have_the_defaults_of_rabbitmq() -> None:
    assert terms_of(spec_of()) == LinkTerms(
        kind="exchange", user="anna", vhost="/", resource="x", upstream="far", cluster="here",
        consumer_tag="federation-link-up",
        declared={"type": "topic", "durable": True, "auto_delete": False, "arguments": {"alternate-exchange": "lost"}},
        prefetch=1000, max_hops=1, ack_mode="on-confirm", trusts_user_id=False,
        queue_arguments={"x-internal-purpose": "federation"}, cleans_up=True,
    )  # fmt: skip


def test_given_keys_are_obeyed() -> None:
    given: dict[str, object] = {"prefetch_count": 5.0, "max_hops": 3, "ack_mode": "no-ack", "trust_user_id": True}
    given |= {"expires": 60_000.0, "message_ttl": 0, "queue_type": "quorum", "resource_cleanup_mode": "never"}
    terms = terms_of(spec_of(**given))
    assert (terms.prefetch, terms.max_hops, terms.ack_mode) == (5, 3, "no-ack")
    assert terms.queue_arguments == {
        "x-internal-purpose": "federation", "x-expires": 60_000, "x-message-ttl": 0, "x-queue-type": "quorum",
    }  # fmt: skip
    assert terms.trusts_user_id
    assert not terms.cleans_up


def test_prefetch_is_within_the_protocol() -> None:
    assert terms_of(spec_of(prefetch_count=1_000_000)).prefetch == 65_535
    assert terms_of(spec_of(prefetch_count=0)).prefetch == 1000
    assert terms_of(spec_of(prefetch_count=float("inf"))).prefetch == 65_535
    assert terms_of(spec_of(expires=1e300)).queue_arguments["x-expires"] == 1 << 53
    assert terms_of(spec_of(max_hops=-5)).max_hops == 0


@pytest.mark.parametrize(
    ("uri", "vhost", "whole"),
    [
        ("amqp://u:p@host", "/", "amqp://u:p@host/%2F"),
        ("amqp://host:1?heartbeat=5", "a b", "amqp://host:1/a%20b?heartbeat=5"),
        ("amqp://host/eu", "/", "amqp://host/eu"),
        ("amqp://", "eu", "amqp:///eu"),
        ("amqp://host/", "eu", "amqp://host/"),
    ],
)
def test_uri_without_a_path_is_of_the_vhost_of_the_link(uri: str, vhost: str, whole: str) -> None:
    assert uris_of(spec_of(vhost, uri=uri)) == [whole]
    assert uris_of(spec_of(vhost, uri=[uri, "amqp://other/x"])) == [whole, "amqp://other/x"]


@pytest.mark.parametrize(
    ("vhost", "resource", "there", "name"),
    [
        ("/", "far", "/", "federation: far -> here"),
        ("/", "x", "/", "federation: far -> here:x"),
        ("eu", "far", "/", "federation: far -> here:eu:far"),
    ],
)
def test_queue_at_the_upstream_has_the_name_that_rabbitmq_gives(
    vhost: str, resource: str, there: str, name: str
) -> None:
    assert queue_name(terms_of(spec_of(vhost, {"resource": resource})), there) == name
