"""Scan of a store: counts of its records, and names of queues."""

from __future__ import annotations

from penstock.persistence.metadata_records import QUEUE
from penstock.persistence.store_scan import StoreScanner
from penstock.store.records import MessageRow, QueuePosition, SettlementRecord
from tests.support.restored_broker import Declared, journaled


def stored() -> Declared:
    """Return a store with a queue that is bound, and one that is not; without their declarations."""
    declared = Declared(journaled())
    vhost = declared.driver.broker.vhosts["/"]
    for name in ("bound", "unbound"):
        vhost.declare_queue(name, {}, True, False, None, None)
    vhost.bind("amq.direct", vhost.queues["bound"], None, "k", {})
    declared.write()
    declared.shelf.things = {key: data for key, data in declared.shelf.things.items() if key[0] != QUEUE}
    return declared


def test_queue_without_a_declaration_gets_the_name_that_a_binding_knows() -> None:
    counting = StoreScanner()
    for thing in stored().things():
        counting.take(thing)
    for number in (1, 2, 3):
        counting.take(QueuePosition(number, 9, 0, 5))
        counting.account.find(number, 5 if number < 3 else 0)
    names = {number: loss.queue for number, loss in ((each.number, each) for each in counting.account.losses([]))}
    assert names[1] == "a queue whose declaration is lost (number 1)"
    things = counting.declarations()
    assert [thing.key for thing in things] == ["%2F/bound", "%2F/saved-2"]
    assert counting.account.names == {1: "queue 'bound' in vhost '/'", 2: "queue 'saved-2' in vhost '/'"}


def test_records_in_order_that_make_no_sense_are_damage() -> None:
    counting = StoreScanner()
    counting.take(MessageRow(7, b"\xff", 0, 0, 12, 300))
    counting.take(SettlementRecord(8, b"\x01"))
    told = [(damage.what, damage.messages, damage.table) for damage in counting.damaged]
    assert told == [("row 7", 12, "rows"), ("note 8", 0, "notes")]
