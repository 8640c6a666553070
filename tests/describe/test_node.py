"""Metrics of the node: identity, gates by kind, shared gates, and figures of the server."""

from __future__ import annotations

from penstock.describe.exposition import Family
from penstock.describe.metrics import Scrape, Selection
from penstock.describe.node import NodeFigures
from penstock.driver.driver import BrokerDriver
from penstock.flow.gate_stats import Histogram
from penstock.flow.level import UNLIMITED, Level, Thresholds
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.blocked_producers import BlockedProducers
from tests.support.driven_connection import Dialogue, mandatory, publish
from tests.support.metrics import Samples, samples_of, scraped

SHARED = Thresholds(Level(UNLIMITED, 1 << 30), Level(UNLIMITED, 1 << 29), Level(UNLIMITED, 1 << 28))
"""Thresholds of a shared limit, far away."""


def with_figures(driver: BrokerDriver, figures: NodeFigures) -> Samples:
    return samples_of("".join(Scrape(driver, figures, False).aggregated()))


def test_gates_are_counted_by_kind_and_outlive_their_queue() -> None:
    rig = BlockedProducers()
    for _ in range(5):
        rig.do("publish", 0, "orders")
    rig.do("wait", 1, "")
    found = samples_of(scraped(rig.driver))
    assert found[("penstock_gates_closed", "kind=queue")] == 1
    assert found[("penstock_gates_closed", "kind=memory")] == 0
    assert found[("penstock_blocked_producers", "kind=queue")] == 1
    broker = rig.driver.broker
    broker.delete_queue(broker.vhosts["/"].queues["orders"])
    rig.user.listen(20.0)
    found = samples_of(scraped(rig.driver))
    assert found[("penstock_gates_closed", "kind=queue")] == 0
    assert found[("penstock_blocked_producers", "kind=queue")] == 0
    assert found[("penstock_gate_crossings_total", "kind=queue")] == 1
    assert found[("penstock_gate_closed_seconds_total", "kind=queue")] >= 10
    assert found[("penstock_producers_blocked_seconds_total", "kind=queue")] >= 10


def test_producer_that_goes_on_when_its_gate_opens_counts_as_resumed() -> None:
    rig = BlockedProducers()
    for _ in range(5):
        rig.do("publish", 0, "orders")
    assert samples_of(scraped(rig.driver))[("penstock_resume_latency_seconds_count",)] == 0
    rig.driver.broker.vhosts["/"].purge_queue(rig.driver.broker.vhosts["/"].queues["orders"], 1.0)
    rig.user.listen(1.5)
    found = samples_of(scraped(rig.driver))
    assert found[("penstock_resume_latency_seconds_count",)] == 1
    assert found[("penstock_resume_latency_seconds_sum",)] == 0.5


def test_held_publish_counts_its_seconds_on_admission() -> None:
    rig = BlockedProducers()
    for _ in range(4):
        rig.do("publish", 0, "orders")
    for number in (1, 2):
        rig.do("publish", number, "orders")
    rig.user.listen(10.0)
    assert samples_of(scraped(rig.driver))[("penstock_publish_hold_seconds_count",)] == 0
    rig.driver.broker.vhosts["/"].purge_queue(rig.driver.broker.vhosts["/"].queues["orders"], 10.0)
    rig.user.listen(10.0)
    found = samples_of(scraped(rig.driver))
    held = rig.driver.broker.turns.totals.holds
    assert found[("penstock_publish_hold_seconds_count",)] == held.cumulative()[-1] >= 1
    assert found[("penstock_publish_hold_seconds_sum",)] == 10.0 * held.cumulative()[-1]


def test_shared_gates_are_listed_one_by_one(driver: BrokerDriver) -> None:
    driver.broker.gates.block("vhost", "/", "/", "maintenance")
    found = samples_of(scraped(driver))
    assert found[("penstock_gate_open", "gate=vhost /", "kind=operator", "vhost=/")] == 0
    assert found[("penstock_gates_closed", "kind=operator")] == 1


def test_depth_of_memory_and_virtual_hosts_has_no_slack() -> None:
    rig = BlockedProducers()
    broker = rig.driver.broker
    broker.gates.set_memory_capacity(SHARED, 0)
    broker.gates.set_vhost_limit(broker.vhosts["/"], SHARED)
    for name in ("idle", "idle too"):
        broker.vhosts["/"].declare_queue(name, {}, False, False, None, None)
    for _ in range(3):
        rig.do("publish", 0, "orders")
    memory = broker.gates.memory
    assert memory is not None
    found = samples_of(scraped(rig.driver))
    depth = int(broker.vhosts["/"].queues["orders"].bytes)
    other = int(broker.gates.other_memory.bytes)
    assert memory.bytes > depth + other
    assert found[("penstock_gate_depth_bytes", "gate=of the node", "kind=memory", "vhost=")] == depth + other
    assert found[("penstock_gate_depth_bytes", "gate=/", "kind=vhost", "vhost=/")] == depth
    assert memory.exact_measure(0.0).bytes == depth + other


def test_alarms_are_closed_gates_of_the_node(driver: BrokerDriver) -> None:
    driver.broker.gates.set_memory_capacity(SHARED, 0)
    found = samples_of(scraped(driver))
    assert found[("rabbitmq_alarms_memory_used_watermark",)] == 0
    assert found[("rabbitmq_alarms_free_disk_space_watermark",)] == 0
    memory = driver.broker.gates.memory
    assert memory is not None
    driver.broker.gates.count_other_memory(1 << 30)
    assert samples_of(scraped(driver))[("rabbitmq_alarms_memory_used_watermark",)] == 1


def test_figures_of_the_server_are_shown_where_there_are_any(driver: BrokerDriver) -> None:
    figures = NodeFigures()
    assert ("rabbitmq_process_open_fds",) not in with_figures(driver, figures)
    figures.open_files, figures.ready, figures.store = 7, False, "sqlite"
    figures.transactions = Histogram()
    figures.transactions.count(0.25)
    figures.transaction_bytes = 100
    figures.certificates = [("/x.pem", "", 4_000_000_000.0)]
    figures.process = [(Family("p_total", "p"), [("p_total", 'generation="0"', 2.0)])]
    found = with_figures(driver, figures)
    assert found[("penstock_ready",)] == 0
    assert found[("penstock_store_info", "kind=sqlite")] == 1
    assert found[("rabbitmq_process_open_fds",)] == 7
    assert found[("rabbitmq_io_sync_ops_total",)] == found[("penstock_store_transaction_seconds_count",)] == 1
    assert found[("rabbitmq_io_sync_time_seconds_total",)] == 0.25
    assert found[("rabbitmq_io_write_bytes_total",)] == 100
    assert found[("penstock_tls_certificate_expiry_timestamp_seconds", "file=/x.pem", "name=")] == 4_000_000_000
    assert found[("p_total", "generation=0")] == 2


def test_messages_are_counted_for_the_node_and_for_each_object(driver: BrokerDriver) -> None:
    client = Dialogue(driver)
    client.confirm()
    client.declare("q", **{"max-length": 2, "overflow": "drop-head"})
    for _ in range(3):
        client.say(publish("q", b"x"))
    client.say(publish("nowhere", b"x"))
    client.say(mandatory(b"x", "nowhere"))
    client.say(method_frame(1, spec.BASIC_GET, queue="q", no_ack=True))
    client.listen(1.0)
    found = samples_of(scraped(driver, Selection(100)))
    channel = ("channel=" + client.connection.name() + "/ch:1", "vhost=/")
    queue = ("queue=q", "vhost=/")
    assert found[("rabbitmq_channel_messages_published_total", *channel)] == 5
    assert found[("rabbitmq_channel_messages_confirmed_total", *channel)] == 5
    assert found[("rabbitmq_channel_messages_unroutable_returned_total", *channel)] == 1
    assert found[("rabbitmq_channel_messages_unroutable_dropped_total", *channel)] == 1
    assert found[("rabbitmq_channel_get_total", *channel)] == 1
    assert found[("rabbitmq_queue_messages_published_total", *queue)] == 3
    assert found[("rabbitmq_queue_get_total", *queue)] == 1
    assert found[("penstock_queue_dropped_messages_total", *queue)] == 1
    assert found[("rabbitmq_exchange_messages_published_total", "exchange=", "vhost=/")] == 5
    assert found[("penstock_exchange_messages_routed_total", "exchange=", "vhost=/")] == 3
    driver.disconnect(client.connection)
    broker = driver.broker
    broker.delete_queue(broker.vhosts["/"].queues["q"])
    driver.begin(100.0)
    driver.stats.sample(driver.connections)
    summed = samples_of(scraped(driver))
    assert summed[("rabbitmq_global_messages_received_total",)] == 5
    assert summed[("rabbitmq_global_messages_routed_total",)] == 3
    assert summed[("rabbitmq_channel_messages_published_total",)] == 5
    assert summed[("rabbitmq_global_messages_delivered_total",)] == 1
    assert summed[("penstock_dropped_messages_total",)] == 1
