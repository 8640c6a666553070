"""Metrics of a node: both shards with their label, the node's own process, and a shard that does not answer."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from tests.support.brokers import eventually
from tests.support.http_client import Web
from tests.support.unix_http import UnixConnection
from tests.support.web_node import WebNode

PATHS = ("/metrics", "/metrics/per-object", "/metrics/detailed?family=queue_coarse_metrics&vhost=other")


@pytest.fixture(scope="module")
def web(node: WebNode) -> Web:
    """Return a client of a node with a queue in each shard."""
    for vhost, count in (("%2F", 1), ("other", 2)):
        node.web.do("PUT", f"/queues/{vhost}/orders", {"durable": True}, 201)
        for _ in range(count):
            body = {"properties": {}, "routing_key": "orders", "payload": "x", "payload_encoding": "string"}
            assert node.web.ask("POST", f"/exchanges/{vhost}/amq.default/publish", body).json["routed"]
    return node.web


def samples(web: Web, path: str, name: str) -> dict[tuple[str, ...], float]:
    """Return the samples of a name, by shard and virtual host."""
    found: dict[tuple[str, ...], float] = {}
    for family in text_string_to_metric_families(web.fetch(path).text):
        for sample in family.samples:
            if sample.name == name:
                key = tuple(sample.labels[label] for label in ("shard", "vhost") if label in sample.labels)
                assert key not in found, sample
                found[key] = sample.value
    return found


def test_figures_of_each_shard_have_its_name(node: WebNode, web: Web) -> None:
    one, two = node.shard_of("/"), node.shard_of("other")
    assert samples(web, "/metrics", "rabbitmq_queue_messages_ready") == {(one,): 1, (two,): 2}
    by_object = samples(web, "/metrics/per-object", "rabbitmq_queue_messages_ready")
    assert by_object == {(one, "/"): 1, (two, "other"): 2}
    detailed = samples(web, PATHS[2], "rabbitmq_detailed_queue_messages_ready")
    assert detailed == {(two, "other"): 2}


def test_node_itself_has_figures_without_a_shard(node: WebNode, web: Web) -> None:
    assert samples(web, "/metrics", "rabbitmq_identity_info") == {(): 1}
    memory = samples(web, "/metrics", "process_resident_memory_bytes")
    assert memory.keys() == {(), ("1",), ("2",)}
    assert len(set(memory.values())) == 3
    attempts = samples(web, "/metrics", "rabbitmq_auth_attempts_succeeded_total")[()]
    node.user("someone", "management")
    assert Web(node.process.http, "someone", "someone").ask("GET", "/whoami").status == 200
    assert samples(web, "/metrics", "rabbitmq_auth_attempts_succeeded_total")[()] > attempts
    for path in ("/metrics", "/metrics/per-object"):
        assert samples(web, path, "penstock_ready") == {(): 1, ("1",): 1, ("2",): 1}


@pytest.mark.parametrize("path", PATHS)
def test_answer_is_read_by_the_strict_parser_of_openmetrics(web: Web, path: str) -> None:
    answer = web.fetch(path, {"Accept": "application/openmetrics-text"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    families = list(openmetrics_families(answer.text))
    names = [each.name for each in families]
    assert len(names) == len(set(names))
    up = next(each for each in families if each.name == "penstock_shard_up")
    assert [(each.labels, each.value) for each in up.samples] == [({"shard": "1"}, 1), ({"shard": "2"}, 1)]


def test_shard_that_stands_still_is_left_out_and_named(node: WebNode, web: Web) -> None:
    one, two = node.shard_of("/"), node.shard_of("other")
    with node.paused(two):
        text = web.fetch("/metrics").text
    assert f'penstock_shard_up{{shard="{one}"}} 1\npenstock_shard_up{{shard="{two}"}} 0\n' in text
    assert f'rabbitmq_queues{{shard="{one}"}} 1\n' in text
    assert f'rabbitmq_queues{{shard="{two}"}}' not in text
    up = {(one,): 1, (two,): 1}
    eventually(lambda: samples(web, "/metrics", "penstock_shard_up") == up, "both answer again")


def test_unknown_family_is_refused_by_the_node(web: Web) -> None:
    answer = web.fetch("/metrics/detailed?family=nonsense")
    assert (answer.status, answer.json["error"]) == (400, "bad_request")
    assert "family 'nonsense' is unknown" in answer.reason


def test_user_without_the_tag_gets_no_metrics(node: WebNode) -> None:
    node.user("low", "management", "other")
    assert Web(node.process.http, "low", "low").fetch("/metrics").status == 401


def test_listener_for_metrics_has_both_shards_without_a_login(node: WebNode) -> None:
    connection = UnixConnection(node.metrics)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    assert 'penstock_shard_up{shard="1"} 1' in text
    assert 'rabbitmq_queues{shard="2"} 1' in text
