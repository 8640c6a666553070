"""Audit of methods: what is recorded of each one that changes the topology, and that others record nothing."""

import json

import pytest

from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import Dialogue, make_driver


@pytest.fixture
def driver():
    driver = make_driver()
    driver.audit.enabled = True
    return driver


@pytest.fixture
def dialogue(driver):
    dialogue = Dialogue(driver)
    driver.audit.take()
    return dialogue


def call(dialogue, method, **args):
    dialogue.names(method_frame(1, method, **args))


def changes(driver):
    return [(r["operation"], r["subject"]) for r in driver.audit.take() if r["event"] == "change"]


def test_each_method_that_changes_something_is_recorded_once(driver, dialogue):
    bound = {"queue": "q", "exchange": "e", "routing_key": "k"}
    joined = {"source": "e", "destination": "amq.fanout", "routing_key": "k"}
    for method, args, subject in (
        (spec.QUEUE_DECLARE, {"queue": "q", "durable": True}, "q"),
        (spec.EXCHANGE_DECLARE, {"exchange": "e", "type": "direct"}, "e"),
        (spec.QUEUE_BIND, bound, "q"),
        (spec.EXCHANGE_BIND, joined, "amq.fanout"),
    ):
        for expected in ([(spec.METHODS[method].name, subject)], []):  # The second time nothing changes.
            call(dialogue, method, **args)
            assert changes(driver) == expected
    for method, args, subject in (
        (spec.EXCHANGE_UNBIND, joined, "amq.fanout"),
        (spec.QUEUE_UNBIND, bound, "q"),
        (spec.EXCHANGE_DELETE, {"exchange": "e"}, "e"),
        (spec.QUEUE_DELETE, {"queue": "q"}, "q"),
    ):
        for expected in ([(spec.METHODS[method].name, subject)], []):
            call(dialogue, method, **args)
            assert changes(driver) == expected


def test_deleted_queue_is_recorded_as_it_was(driver, dialogue):
    call(dialogue, spec.QUEUE_DECLARE, queue="q", durable=True, arguments={"x-max-length": 5})
    call(dialogue, spec.QUEUE_DELETE, queue="q")
    deleted = driver.audit.take()[-1]
    assert json.loads(deleted["before"]) == {"durable": True, "arguments": {"x-max-length": 5}}


def test_queue_without_a_name_is_recorded_with_the_one_that_it_got(driver, dialogue):
    call(dialogue, spec.QUEUE_DECLARE, queue="")
    ((operation, subject),) = changes(driver)
    assert operation == "queue.declare"
    assert subject.startswith("amq.gen-")


def test_purge_is_recorded_and_reading_is_not(driver, dialogue):
    call(dialogue, spec.QUEUE_DECLARE, queue="q")
    driver.audit.take()
    call(dialogue, spec.QUEUE_PURGE, queue="q")
    assert changes(driver) == [("queue.purge", "q")]
    call(dialogue, spec.QUEUE_DECLARE, queue="q", passive=True)
    call(dialogue, spec.BASIC_GET, queue="q")
    assert changes(driver) == []
