"""Audit log of a running broker: operations of clients of each protocol, without secrets."""

import asyncio
import json
import stat

import pika
import pytest

import penstock
from penstock.logs import auditlog
from penstock.settings.config import Settings
from penstock.settings.start import NO_LOG
from tests.support.http_client import Web
from tests.support.users import file_users

SECRET = "hunter2-of-the-test"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "audit"


def serve(folder, **settings):
    given = Settings(flow_log=NO_LOG, audit_log=str(folder), users=file_users({"anna": SECRET}, ("anna",)), **settings)
    return penstock.Broker(listen="127.0.0.1:0", http="127.0.0.1:0", settings=given)


def client(broker, password=SECRET):
    host, port = broker.addresses[0]
    return pika.BlockingConnection(
        pika.ConnectionParameters(host, port, credentials=pika.PlainCredentials("anna", password))
    )


def use_amqp(broker):
    with client(broker) as connection:
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        channel.queue_declare("orders", durable=True)  # It is there, so nothing changes.
        channel.queue_declare("orders", passive=True)
        channel.exchange_declare("shop", "topic", durable=True)
        channel.queue_bind("orders", "shop", "new.#")
        channel.queue_declare("", exclusive=True)
        channel.queue_declare("", exclusive=True)
        channel.queue_purge("orders")
        channel.queue_unbind("orders", "shop", "new.#")
        channel.queue_delete("orders")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            channel.queue_declare("amq.mine")
    for _ in range(2):
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            client(broker, SECRET + "x")


def use_http(broker):
    web = Web(broker.http_url, "anna", SECRET)
    for method, path, body in (
        ("PUT", "/queues/%2F/bills", {"durable": True}),
        ("GET", "/queues", None),
        ("POST", "/exchanges/%2F/amq.default/publish", {
            "properties": {}, "routing_key": "bills", "payload": SECRET, "payload_encoding": "string"}),
        ("DELETE", "/queues/%2F/bills", None),
    ):  # fmt: skip
        assert web.ask(method, path, body).status in (200, 201, 204)


async def test_audit_log_has_user_operation_and_address(folder):
    async with serve(folder) as broker:
        await asyncio.to_thread(use_amqp, broker)
        await asyncio.to_thread(use_http, broker)
    records = list(auditlog.read(folder))
    assert {record["event"] for record in records} <= set(auditlog.EVENTS)
    assert all(set(record) <= set(auditlog.FIELDS) for record in records)
    assert [record["event"] for record in records if record["event"] in ("start", "stop")] == ["start", "stop"]
    changes = [(r["operation"], r["subject"]) for r in records if r["event"] == "change" and "reason" not in r]
    assert changes == [
        ("queue.declare", "orders"),
        ("exchange.declare", "shop"),
        ("queue.bind", "orders"),
        ("queue.purge", "orders"),
        ("queue.unbind", "orders"),
        ("queue.delete", "orders"),
        ("PUT /queues/{vhost}/{name}", "/ bills"),
        ("DELETE /queues/{vhost}/{name}", "/ bills"),
    ]
    declared = next(r for r in records if r.get("operation") == "queue.declare")
    assert declared["user"] == "anna"
    assert declared["address"].startswith("127.0.0.1:")
    assert declared["vhost"] == "/"
    assert json.loads(declared["after"])["durable"] is True
    assert "before" not in declared
    temporary = [r for r in records if r.get("reason") == "temporary"]
    assert sum(r.get("count", 1) for r in temporary) == 2, "two exclusive queues, of which the second is in a sum"
    (refused,) = [r for r in records if r["event"] == "access-refused"]
    assert refused["operation"] == "queue.declare"
    assert "amq.mine" in refused["reason"]
    wrong = [r for r in records if r["event"] == "login-refused"]
    assert sum(r.get("count", 1) for r in wrong) == 2
    assert wrong[0]["user"] == "anna"
    logins = [(r["protocol"], r["mechanism"]) for r in records if r["event"] == "login"]
    assert logins[0] == ("AMQP 0-9-1", "PLAIN")
    assert ("http", "basic") in logins


async def test_audit_log_has_no_secret_and_is_readable_by_its_owner_only(folder):
    async with serve(folder) as broker:
        await asyncio.to_thread(use_amqp, broker)
        await asyncio.to_thread(use_http, broker)
    (path,) = auditlog.files(folder)
    assert SECRET not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


ACCESS = (
    ("PUT", "/users/bob", {"password": SECRET, "tags": "management"}, None),
    ("PUT", "/users/bob", {"password": SECRET, "tags": "monitoring"}, {"tags": ["management"]}),
    ("PUT", "/permissions/%2F/bob", {"configure": "a", "write": "b", "read": "c"}, None),
    ("PUT", "/permissions/%2F/bob", {"configure": "", "write": "", "read": ""}, {"configure": "a", "read": "c"}),
    ("PUT", "/topic-permissions/%2F/bob", {"exchange": "amq.topic", "write": "w", "read": "r"}, None),
    ("DELETE", "/topic-permissions/%2F/bob", None, {"amq.topic": {"write": "w", "read": "r"}}),
    ("DELETE", "/permissions/%2F/bob", None, {"configure": "", "write": "", "read": ""}),
    ("PUT", "/user-limits/bob/max-channels", {"value": 7}, {}),
    ("DELETE", "/user-limits/bob/max-channels", None, {"max-channels": 7}),
    ("PUT", "/policies/%2F/p", {"pattern": "^q", "definition": {"max-length": 5}}, None),
    ("PUT", "/policies/%2F/p", {"pattern": "^q", "definition": {"max-length": 6}}, {"definition": {"max-length": 5}}),
    ("DELETE", "/policies/%2F/p", None, {"definition": {"max-length": 6}}),
    ("DELETE", "/users/bob", None, {"name": "bob", "tags": ["monitoring"]}),
)
"""Changes of access and policies by HTTP, each with a part of what the record has as `before`."""


async def test_changes_of_access_and_policies_record_the_former_state(folder):
    async with serve(folder) as broker:
        web = Web(broker.http_url, "anna", SECRET)
        for method, path, body, _ in ACCESS:
            answer = await asyncio.to_thread(web.ask, method, path, body)
            assert answer.status in (201, 204), (method, path, answer)
    records = [record for record in auditlog.read(folder) if record["event"] == "change"]
    assert len(records) == len(ACCESS)
    for record, (method, path, _, before) in zip(records, ACCESS, strict=True):
        told = json.loads(record["before"]) if "before" in record else None
        assert (told is None) == (before is None), (method, path, told)
        assert before is None or told | before == told, (method, path, told)
        assert SECRET not in str(record)
