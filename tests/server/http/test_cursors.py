"""Cursors over HTTP."""

from __future__ import annotations

from penstock.client import Connection, ControlClient
from tests.support.brokers import BrokerProcess
from tests.support.http_client import Web


def test_cursors_are_shown_and_deleted(served: BrokerProcess, web: Web, name: str) -> None:
    web.do("PUT", f"/queues/%2F/{name}", {}, status=201)
    with Connection(served.url) as connection, ControlClient(connection) as control:
        control.attach(name, [name])
    shown = web.get(f"/penstock/cursors/%2F/{name}")
    assert shown["queues"] == [{"queue": name, "settled": 0, "planned": 0, "tail": 0, "deleted": False, "left": False}]
    for path in ("/penstock/cursors", "/penstock/cursors/%2F"):
        assert name in [each["name"] for each in web.get(path)]
    assert web.get(f"/queues/%2F/{name}")["penstock"]["cursors"] == [name]
    web.do("DELETE", f"/penstock/cursors/%2F/{name}")
    assert web.get(f"/queues/%2F/{name}")["penstock"]["cursors"] == []
    for method in ("GET", "DELETE"):
        answer = web.ask(method, f"/penstock/cursors/%2F/{name}")
        assert (answer.status, answer.reason) == (404, f"no cursor '{name}' in vhost '/'")
    assert web.ask("GET", "/penstock/cursors/nowhere").status == 404
