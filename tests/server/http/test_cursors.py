"""Cursors over HTTP."""

from __future__ import annotations

from penstock.sync import connect
from tests.support.brokers import BrokerProcess
from tests.support.http_client import Web


def test_cursors_are_shown_and_deleted(served: BrokerProcess, web: Web, name: str) -> None:
    web.declare(name)
    with connect(served.url, protocol="amqp091") as control:
        control.attach_cursor(name, [name])
    shown = web.get(f"/penstock/cursors/%2F/{name}")
    assert [(each["queue"], each["settled"], each["tail"]) for each in shown["queues"]] == [(name, 0, 0)]
    assert shown["lag"] == {"messages": 0, "bytes": 0, "oldest_s": 0.0}
    assert (shown["reader"]["open"], shown["blocked_producers"]) == (False, [])
    for path in ("/penstock/cursors", "/penstock/cursors/%2F"):
        assert name in [each["name"] for each in web.get(path)]
    assert web.queue(name)["penstock"]["cursors"] == [name]
    web.do("DELETE", f"/penstock/cursors/%2F/{name}")
    assert web.queue(name)["penstock"]["cursors"] == []
    for method in ("GET", "DELETE"):
        answer = web.ask(method, f"/penstock/cursors/%2F/{name}")
        assert (answer.status, answer.reason) == (404, f"no cursor '{name}' in vhost '/'")
    assert web.ask("GET", "/penstock/cursors/nowhere").status == 404


def test_cursor_is_moved_once_no_reader_is_attached(served: BrokerProcess, web: Web, name: str) -> None:
    web.declare(name)
    for number in range(3):
        web.publish(name, str(number))
    path = f"/penstock/cursors/%2F/{name}"
    with connect(served.url, protocol="amqp091") as control:
        control.attach_cursor(name, [name])
        answer = web.ask("POST", f"{path}/move", {"to": "latest"})
        assert (answer.status, "is in use by con:" in answer.reason) == (400, True)
        seen = web.do("POST", f"{path}/move", {"to": {name: 2}, "dry_run": True}, status=200).json
        assert (seen["dry_run"], seen["queues"][0]["messages"], web.get(path)["unsettled"]) == (True, 2, 3)
        web.do("POST", f"{path}/move", {"to": {name: 2}, "force": True}, status=200)
        assert web.get(path)["unsettled"] == 1
    moved = web.do("POST", f"{path}/move", {"to": "latest"}, status=200).json
    assert moved["sentences"][0].endswith("are passed over, and 1 of them leave the queue")
    for body, status in (({}, 400), ({"to": {"x": 1}}, 404), ({"to": 5}, 400), ({"to": {name: 4}}, 400)):
        assert web.ask("POST", f"{path}/move", body).status == status
    assert web.ask("POST", f"{path}x/move", {"to": "latest"}).status == 404


def test_leases_are_listed_and_ended(served: BrokerProcess, web: Web, name: str) -> None:
    web.declare(name)
    web.publish(name, "one")
    with connect(served.url, protocol="amqp091") as control:
        number = control.request("lease.open", queues=[name], query="7c3e")["lease"]
    for path in ("/penstock/leases", "/penstock/leases/%2F"):
        (lease,) = [each for each in web.get(path) if each["number"] == number]
        assert (lease["user"], lease["query"], lease["finished"]) == ("guest", "7c3e", False)
        assert lease["queues"] == [{"queue": name, "lo": 0, "hi": 1, "pinned": True, "held": 0}]
        assert 0 < lease["ends_in_s"] <= 300
    web.do("DELETE", f"/penstock/leases/%2F/{number}")
    assert web.queue(name)["penstock"]["cursors"] == []
    answer = web.ask("DELETE", f"/penstock/leases/%2F/{number}")
    assert (answer.status, f"lease {number} has ended" in answer.reason) == (404, True)
    for wrong in ("none", "1.5", "9" * 30):
        answer = web.ask("DELETE", f"/penstock/leases/%2F/{wrong}")
        assert (answer.status, "is no number of a lease" in answer.reason) == (400, True)


def test_queries_that_publish_are_listed_and_ended(served: BrokerProcess, web: Web, name: str) -> None:
    web.declare(name)
    batch = {"query": name, "batch": 3, "run": "", "write": "w", "exchange": "", "routing_key": name}
    with connect(served.url, protocol="amqp091") as control:
        control.request("sink.begin", **batch, delivery="dedup", partition=0, attempt=0)
    for path in ("/penstock/sinks", "/penstock/sinks/%2F"):
        (sink,) = [each for each in web.get(path) if each["query"] == name]
        assert (sink["user"], sink["batch"], sink["marks"], sink["staged"]) == ("guest", 3, 2, None)
        assert sink["target"] == f'queue "{name}"'
    web.do("DELETE", f"/penstock/sinks/%2F/{name}")
    assert [each for each in web.get("/penstock/sinks") if each["query"] == name] == []
    assert web.ask("DELETE", f"/penstock/sinks/%2F/{name}").status == 404
