"""Requests that a shard passes up: which, and what becomes of them if the node hangs."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from penstock.client.errors import ControlError
from penstock.cluster.passing_up import PassingUp
from penstock.connections.control_request import IMPORT, ControlRequest
from penstock.management.operation import ALL, CATALOGUE, NODE, VHOST, who_answers
from penstock.operations.table import CONTROL
from tests.support.brokers import eventually
from tests.support.two_shards import HANGING, client, two_shards


@pytest.mark.parametrize("name", sorted(CONTROL))
def test_shard_answers_itself_what_is_of_its_vhost_alone(name: str) -> None:
    row = CONTROL[name]
    passing = PassingUp(None, "1", None)  # type: ignore[arg-type]  # Nothing is asked.
    for fields in ({}, {"everywhere": True}, {"queue": "q"}, {"user": "u"}, {"vhost": "v"}, {"kind": "users"}):
        request = ControlRequest(None, None)
        request.fields = dict(fields)
        is_own = row.name != IMPORT and who_answers(row, request.fields) == VHOST
        assert (passing.asks(row, request) is None) == is_own
        if not is_own:
            assert row.name == IMPORT or who_answers(row, request.fields) in (ALL, CATALOGUE, NODE)


def test_node_that_hangs_gives_its_clients_an_error(tmp_path: Path) -> None:
    with two_shards(tmp_path, **HANGING) as node, client(node) as asking:
        assert asking.request("user.list")
        os.kill(node.process.pid, signal.SIGSTOP)
        try:
            with pytest.raises(ControlError, match="the node has not answered: it has not answered for 4 s"):
                asking.request("user.list")
            assert asking.request("list", kind="queues")["items"] is not None  # Its own shard answers.
        finally:
            os.kill(node.process.pid, signal.SIGCONT)
        assert eventually(lambda: asking.request("user.list")["users"], "users")
