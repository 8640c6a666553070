"""Audit trail: recorded, summed, hidden and bounded records, and the allowance of each user."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connections import audit_trail
from penstock.connections.audit_trail import (
    APART_S,
    KINDS_KEPT,
    NAME_MAX,
    RECORD_WORK,
    RECORDS_KEPT,
    SUM_WORK,
    SUMS_KEPT,
    TEXT_MAX,
    Actor,
    AuditTrail,
)
from penstock.core.broker import Broker
from penstock.core.settings.limits import Defaults

ANNA = Actor("anna", "10.0.0.7:40312", "AMQP 0-9-1", "/", "2")


@pytest.fixture
def broker():
    broker = Broker(Defaults())
    broker.begin(100.0)
    broker.wall_offset = 1_000_000.0
    return broker


@pytest.fixture
def trail(broker):
    trail = AuditTrail(broker)
    trail.enabled = True
    return trail


def test_change_record_has_user_address_object_and_both_values(trail):
    trail.change(ANNA, "settings.set", "queue orders", {"capacity-messages": 10}, {"capacity-messages": 20})
    (record,) = trail.take()
    assert record == {
        "event": "change",
        "wall": 1_000_100.0,
        "mono": 100.0,
        "user": "anna",
        "address": "10.0.0.7:40312",
        "protocol": "AMQP 0-9-1",
        "connection": "2",
        "vhost": "/",
        "operation": "settings.set",
        "subject": "queue orders",
        "before": '{"capacity-messages": 10}',
        "after": '{"capacity-messages": 20}',
    }


def test_audit_trail_without_an_audit_log_records_nothing(broker):
    trail = AuditTrail(broker)
    trail.change(ANNA, "block", "queue orders")
    trail.login(ANNA, "PLAIN")
    trail.login(ANNA, "PLAIN", "wrong password")
    trail.refused(ANNA, "block", "no")
    trail.passing(ANNA, "queue.declare", "amq.gen-1")
    assert not trail.has_records()
    assert trail.take() == []


def test_guesses_are_summed_and_push_out_no_records(trail, broker):
    trail.change(ANNA, "vhost.delete", "shop")
    for port in range(5_000):
        trail.login(Actor("root", f"203.0.113.9:{port}", "AMQP 0-9-1"), "PLAIN", "user 'root' is not known")
    first = trail.take()
    assert [record["event"] for record in first] == ["change", "login-refused"]
    broker.begin(100.0 + APART_S)
    trail.tick()
    (again,) = trail.take()
    assert again["count"] == 4_999
    assert again["address"] == "203.0.113.9:4999", "the last one of a sum is shown"
    broker.begin(100.0 + 2 * APART_S)
    trail.tick()
    assert trail.take() == [], "a sum without more ends"
    trail.login(Actor("root", "203.0.113.9:1", "AMQP 0-9-1"), "PLAIN", "user 'root' is not known")
    assert [record["event"] for record in trail.take()] == ["login-refused"], "the next one is told at once"


def records_of_an_hour(trail, broker, attack):
    """Return how many records are written while something is tried ten times a second, with ever new names."""
    written = 0
    for second in range(3_600):
        broker.begin(100.0 + second)
        for number in range(10):
            attack(second * 10 + number)
        trail.tick()
        written += len(trail.take())
    return written


@pytest.mark.once
def test_changes_of_a_user_push_out_no_records_of_other_users(trail, broker):
    trail.allowance.burst = 20_000
    records = []
    for step in range(20_000):  # Ten minutes of 33 a second.
        broker.begin(100.0 + step * 0.03)
        trail.change(ANNA, "queue.declare" if step % 2 else "queue.delete", f"queue {step}", None, {"x": "y" * 5_000})
        trail.tick()
        records += trail.take()
    other = Actor("bob", "10.0.0.8:1", "AMQP 0-9-1")
    trail.change(other, "user.put", "eve", None, {"tags": []})
    trail.finish()
    records += trail.take()
    assert sum(len(json.dumps(record)) for record in records) < 20_000 + 600 * 400 + 50_000
    own = [record for record in records if record["user"] == "anna"]
    assert sum(record.get("count", 1) for record in own) == 20_000, "all of them are counted"
    summed = [record for record in own if record.get("reason") == "summed"]
    assert {record["operation"] for record in summed} == {"queue.declare", "queue.delete"}
    assert not any("after" in record for record in summed)
    (record,) = [record for record in records if record["user"] == "bob"]
    assert record["after"] == '{"tags": []}'


def test_logins_of_a_user_push_out_no_records_of_other_users(trail):
    trail.allowance.burst = 2_000
    for _ in range(1_000):
        trail.login(ANNA, "PLAIN")
    trail.finish()
    records = trail.take()
    assert len(records) < 15
    assert sum(record.get("count", 1) for record in records) == 1_000


def test_names_chosen_by_strangers_push_out_no_records(trail, broker):
    def guess(number):
        actor = Actor(f"name {number}", f"203.0.113.9:{number % 60_000}", "AMQP 0-9-1")
        trail.login(actor, "PLAIN", f"user 'name {number}' is not known")

    assert records_of_an_hour(trail, broker, guess) <= 61


@pytest.mark.once
def test_addresses_chosen_by_strangers_push_out_no_records(trail, broker):
    def guess(number):
        address = f"2001:db8::{number:x}:5" if number % 2 else f"198.51.{number // 250 % 250}.{number % 250}:5"
        trail.login(Actor("guest", address, "AMQP 0-9-1"), "PLAIN", "user 'guest' gave a wrong password")

    assert records_of_an_hour(trail, broker, guess) <= 61 * (KINDS_KEPT + 1)


def test_refused_operations_of_a_user_leave_room_for_records_of_other_users(trail, broker):
    def refuse(number):
        trail.refused(ANNA, "queue.declare", f"configure access to queue 'q{number}' refused")

    assert records_of_an_hour(trail, broker, refuse) <= 61 * (KINDS_KEPT + 1)
    trail.refused(Actor("bob", "10.0.0.8:1", "http"), "queue.delete", "no")
    assert [record["user"] for record in trail.take()] == ["bob"]


def test_name_sent_by_a_stranger_is_cut_before_storage(trail):
    for letter in "ab":
        trail.login(Actor("x" * 48_000 + letter, "203.0.113.9:1", "http"), "basic", "user is not known")
    (record,) = trail.take()
    assert record["user"] == "x" * NAME_MAX


def test_audit_records_are_bounded_and_lost_records_are_counted(trail):
    for number in range(RECORDS_KEPT + 3):
        trail.change(ANNA, "queue.declare", f"q{number}")
    records = trail.take()
    assert len(records) == RECORDS_KEPT + 1
    assert records[-1]["event"] == "lost"
    assert records[-1]["count"] == 3
    for number in range(SUMS_KEPT + 2):
        trail.refused(Actor(f"user {number}", "10.0.0.7:1", "http"), "queue.declare", "reason")
    records = trail.take()
    assert len(records) == SUMS_KEPT + 1
    assert records[-1]["count"] == 2


def test_sums_of_the_audit_trail_are_written_at_the_end(trail):
    for _ in range(3):
        trail.passing(ANNA, "queue.declare", "amq.gen-1")
    trail.take()
    trail.finish()
    assert [(record["operation"], record["count"]) for record in trail.take()] == [("queue.declare", 2)]


@pytest.mark.parametrize(
    "field",
    ["password", "password_hash", "new_password", "secret", "client_secret", "token", "private_key", "credentials"],
)
def test_secrets_are_replaced_at_every_depth(trail, field):
    trail.change(ANNA, "user.put", "bob", {field: "hunter2"}, {"users": [{"name": "bob", field: "hunter2"}]})
    (record,) = trail.take()
    assert "hunter2" not in json.dumps(record)
    assert record["before"] == json.dumps({field: "***"})


def test_passwords_of_urls_are_replaced_and_keys_of_routing_are_not(trail):
    after = {"uri": "amqps://bob:hunter2@host/v", "routing_key": "orders.new", "arguments": {"x": b"\xff"}}
    trail.change(ANNA, "parameter.put", "shovel", None, after)
    trail.login(ANNA, "PLAIN", "no answer from https://bob:hunter2@auth")
    shown = json.dumps(trail.take())
    assert "hunter2" not in shown
    assert "//bob:***@" in shown
    assert "orders.new" in shown


@pytest.mark.parametrize(
    "name", ["password", "sslpassword", "access_token", "api_key", "client-secret", "sig", "X-Amz-Signature"]
)
def test_secrets_in_queries_of_urls_are_replaced(trail, name):
    uri = f"amqps://host/v?{name}=hunter2&heartbeat=5;{name}=hunter2"
    trail.change(ANNA, "parameter.put", "shovel", {"uri": uri}, uri)
    trail.refused(ANNA, "parameter.put", f"'{uri}' is refused")
    shown = json.dumps(trail.take())
    assert "hunter2" not in shown
    assert shown.count(f"?{name}=***&heartbeat=5;{name}=***") == 3


def test_password_at_the_end_of_a_long_text_is_replaced(trail):
    trail.refused(ANNA, "x", " " * 4080 + "//bob:hunter2@host")
    assert "hunt" not in json.dumps(trail.take())


@pytest.mark.parametrize("text", ["?" + "key" * 2000, "?key" * 1500, "&;=" * 2000])
def test_long_text_without_a_secret_stays_and_takes_no_time(trail, text):
    trail.refused(ANNA, "x", text)
    assert trail.take()[0]["reason"] == text[:4096]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_arguments_of_a_client_become_a_text_of_bounded_length(value):
    assert len(audit_trail.shown(value)) <= TEXT_MAX


def test_change_beyond_the_allowance_counts_as_work_and_shows_no_states(trail, broker):
    trail.enable(32 * 4_000)
    before = broker.work.done
    trail.change(ANNA, "queue.declare", "first")
    assert broker.work.done - before == RECORD_WORK
    for number in range(100):
        trail.change(ANNA, "queue.declare", f"spends {number}", None, {"arguments": "x" * 100})
    before = broker.work.done
    for number in range(50):
        trail.change(ANNA, "queue.declare", f"q{number}", None, {"arguments": "x" * 100})
    assert broker.work.done - before == 50 * SUM_WORK
    trail.take()
    broker.begin(100.0 + APART_S)
    trail.tick()
    (summed,) = trail.take()
    assert (summed["subject"], summed["reason"], "after" in summed) == ("q49", "summed", False)
    assert summed["count"] >= 50
