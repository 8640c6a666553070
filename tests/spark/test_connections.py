"""Connections that tasks leave to later tasks: reused, and closed when idle or too many."""

import pytest

from pyspark_penstock import connections
from pyspark_penstock.connections import (
    CONNECTIONS_MOST,
    BrokerLink,
    finish_task,
    name_of,
    shared_block_connection,
    shared_link,
)
from pyspark_penstock.errors import BrokerUnreachable
from pyspark_penstock.options import Retries, sink_options
from tests.spark.conftest import close_links
from tests.support.tcp_proxy import proxied


@pytest.fixture
def options(broker):
    close_links()
    connections._links.clear()
    connections._block_connections.clear()
    connections._used.clear()
    connections._in_task.clear()
    yield sink_options({"servers": broker.address, "queue": "any"})
    close_links()


def connection_of(options, query: str):
    return shared_block_connection(options.access, options.access.servers[0], query)


def open_queries() -> set[object]:
    return {key[2] for key in connections._block_connections}


def test_next_task_of_a_query_uses_its_connection_again(options):
    first = connection_of(options, "q")
    finish_task()
    assert connection_of(options, "q") is first
    assert name_of(first).startswith("spark sink ")
    finish_task()


def test_connection_of_an_ended_query_is_closed_when_it_was_unused_for_long(options, monkeypatch):
    ended = connection_of(options, "ended")
    link = shared_link(options.access, options.access.servers[0], Retries(0, 1))
    assert link.ask("sink.waiting", {"application": "a", "task": "1", "cores": 0, "queue": ""}) == {}
    finish_task()
    monkeypatch.setattr(connections, "IDLE_SECONDS", -1.0)
    present = connection_of(options, "present")
    finish_task()
    assert open_queries() == set()
    assert connections._links == {}
    for each in (ended, present):
        assert each.core().phase != connections.OPEN
    assert connection_of(options, "ended") is not ended, "the next task opens it again"
    finish_task()


def test_connection_that_was_unused_longest_is_closed_at_the_bound(options, monkeypatch):
    assert CONNECTIONS_MOST == 32
    monkeypatch.setattr(connections, "CONNECTIONS_MOST", 3)
    for query in ("a", "b", "c"):
        connection_of(options, query)
        finish_task()
    connection_of(options, "a")
    finish_task()
    connection_of(options, "d")
    finish_task()
    assert open_queries() == {"a", "c", "d"}


def test_connections_of_the_present_task_stay_open_while_it_runs(options, monkeypatch):
    monkeypatch.setattr(connections, "CONNECTIONS_MOST", 1)
    for query in ("a", "b"):
        connection_of(options, query)
    assert open_queries() == {"a", "b"}
    finish_task()
    assert len(open_queries()) == 1


@pytest.mark.parametrize("way", [{"requests": True}, {"answers": True}, {"requests": True, "answers": True}])
def test_request_over_a_forgotten_connection_is_asked_again_on_a_new_one(broker, queue, way):
    with proxied(broker.address) as proxy:
        options = sink_options({"servers": proxy.address, "queue": queue})
        link = BrokerLink(options.access, options.access.servers[0], Retries(2, 10), 0.5)
        assert link.ask("why", {"queue": queue})["queue"] == queue
        proxy.forget(**{"requests": False, "answers": False, **way})
        assert link.ask("why", {"queue": queue})["queue"] == queue
        assert proxy.accepted == 2
        proxy.forget()
        proxy.down = True
        with pytest.raises(BrokerUnreachable, match=r"could not be asked in 3 attempts: cannot connect"):
            link.ask("why", {"queue": queue})
        link.close()
