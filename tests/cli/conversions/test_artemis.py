"""Artemis' broker.xml as definitions: the document's example held by a broker, and each kind of element."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.conversions.artemis import convert_artemis
from penstock.errors import ConfigError
from tests.support.brokers import BrokerProcess, eventually, serving
from tests.support.commands import run
from tests.support.raw_channel import Connection

EXAMPLE = """\
<address-settings>
   <address-setting match="jms.queue.exampleQueue">
      <max-size-bytes>100000</max-size-bytes>
      <address-full-policy>BLOCK</address-full-policy>
   </address-setting>
</address-settings>
"""
"""The example of Artemis' page Flow Control, blocking producer window based flow control."""

BROKER = """\
<?xml version='1.0'?>
<configuration xmlns="urn:activemq" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
               xmlns:xi="http://www.w3.org/2001/XInclude" xsi:schemaLocation="urn:activemq /schema/a.xsd">
   <core xmlns="urn:activemq:core">
      <journal-type>ASYNCIO</journal-type>
      <max-disk-usage>90</max-disk-usage>
      <global-max-size>100Mb</global-max-size>
      <xi:include href="security.xml"/>
      <address-settings>
         <address-setting match="activemq.management#">
            <max-size-bytes>-1</max-size-bytes>
         </address-setting>
         <address-setting match="#">
            <dead-letter-address>DLQ</dead-letter-address>
            <redelivery-delay>500</redelivery-delay>
            <max-delivery-attempts>10</max-delivery-attempts>
            <max-size-bytes>10Mb</max-size-bytes>
            <address-full-policy>PAGE</address-full-policy>
            <page-limit-bytes>1G</page-limit-bytes>
            <page-full-policy>FAIL</page-full-policy>
            <auto-create-queues>true</auto-create-queues>
            <slow-consumer-threshold>120</slow-consumer-threshold>
            <slow-consumer-threshold-measurement-unit>MESSAGES_PER_MINUTE</slow-consumer-threshold-measurement-unit>
            <slow-consumer-policy>KILL</slow-consumer-policy>
         </address-setting>
         <address-setting match="news.*">
            <max-size-bytes>1Mb</max-size-bytes>
            <address-full-policy>BLOCK</address-full-policy>
            <expiry-delay>60000</expiry-delay>
            <default-consumer-window-size>0</default-consumer-window-size>
         </address-setting>
      </address-settings>
      <addresses>
         <address name="DLQ"><anycast><queue name="DLQ"/></anycast></address>
         <address name="news.eu"><multicast><queue name="sub"><filter string="a=1"/></queue></multicast></address>
      </addresses>
   </core>
</configuration>
"""


def settings_of(text: str) -> dict[str, dict[str, object]]:
    """Return the settings of each scope and pattern."""
    entries = convert_artemis(text.encode()).entries.get("settings", [])
    return {f"{entry['scope']} {entry['pattern']}": entry["settings"] for entry in entries}  # type: ignore[misc]


def setting(inner: str, match: str = "a", around: str = "") -> str:
    inner = f'<address-setting match="{match}">{inner}</address-setting>'
    return f"<core>{around}<address-settings>{inner}</address-settings></core>"


def remarks_of(text: str) -> list[tuple[int, str]]:
    return [(each.line, each.subject) for each in convert_artemis(text.encode()).remarks]


def error_of(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        convert_artemis(text.encode())
    return str(caught.value)


def test_example_of_the_document_holds_its_producer(own_broker: BrokerProcess, tmp_path: Path) -> None:
    file, queue = tmp_path / "broker.xml", "jms.queue.exampleQueue"
    file.write_text(EXAMPLE)
    words = ("definitions", "import", "--from", "artemis", str(file))
    assert run(own_broker, *words, "--dry-run").splitlines() == [
        f"line 2: settings of queue '{queue}': created",
        "1 to be created, 0 to be changed, 0 unchanged",
    ]
    assert run(own_broker, *words) == "1 setting created\n"
    with Connection(own_broker.url) as connection:
        connection.channel().queue_declare(queue)
        channel = connection.channel()
        confirms = channel.confirm_select()
        for _ in range(200):
            channel.publish(b"x" * 1000, routing_key=queue)
        eventually(lambda: own_broker.queue(queue)["blocked"], "a blocked producer")
        connection.turn(0)
        assert confirms.acked < 100
        assert own_broker.queue(queue)["depth"]["bytes"] <= 100_000


def test_whole_file_is_converted_or_remarked(tmp_path: Path) -> None:
    file = tmp_path / "broker.xml"
    file.write_text(BROKER)
    words = ("definitions", "import", "--from", "artemis", str(file))
    with serving(tmp_path, "--data", str(tmp_path / "data")) as broker:  # PAGE needs a store.
        made = run(broker, *words).splitlines()
        shown = run(broker, "show", "queue", "DLQ")
        again = run(broker, *words, "--dry-run").splitlines()
    assert made[-1] == "5 settings, 1 exchange, 2 queues, 1 binding created"
    assert [line.partition(": not")[0] for line in made[:-1]] == [
        "line 5: <journal-type>",
        "line 8: <include>",
        "line 10: <address-setting> activemq.management#",
        "line 29: <expiry-delay>: message-ttl is also the most for a message that has an expiration of its own",
        "line 35: <filter>",
    ]
    assert "max-size-bytes=10Mb" in shown
    assert "address-full-policy=PAGE" in shown
    assert again[-1] == "0 to be created, 0 to be changed, 9 unchanged"


def test_values_keep_the_meaning_of_their_names() -> None:
    found = settings_of(BROKER)
    assert found["queue #"] == {
        "dead-letter-exchange": "",
        "dead-letter-routing-key": "DLQ",
        "retry-delay": 500,
        "delivery-limit": 9,  # Ten attempts are nine redeliveries.
        "max-size-bytes": "10Mb",
        "address-full-policy": "PAGE",
        "page-limit-bytes": "1G",
        "page-full-policy": "FAIL",
        "auto-create-queues": "true",
        "slow-consumer-threshold": 2.0,
        "slow-consumer-policy": "KILL",
    }
    assert found["broker "] == {"max-disk-usage": 90, "global-max-size": "100Mb"}


def test_multicast_address_is_a_bounded_exchange_and_its_queues_have_its_settings() -> None:
    found = settings_of(BROKER)
    assert found["address news.eu"] == {"max-size-bytes": "1Mb"}
    assert found["queue sub"]["message-ttl"] == 60000
    assert found["queue sub"]["delivery-limit"] == 9, "the settings of # count where the more specific has none"
    assert "max-size-bytes" not in found["queue sub"]


def test_queues_of_artemis_1_are_declared() -> None:
    found = convert_artemis(
        b"""<configuration><core><queues>
        <queue name="q"><address>q</address><durable>false</durable></queue>
        <queue name="copy"><address>news</address><filter string="a=1"/></queue>
        </queues></core><jms>
        <queue name="exampleQueue"><entry name="/queue/exampleQueue"/></queue><topic name="t"/>
        <connection-factory name="f"/></jms></configuration>"""
    )
    queues = [(each["name"], each["durable"]) for each in found.entries["queues"]]
    assert queues == [("q", False), ("copy", True), ("jms.queue.exampleQueue", True)]
    assert [each["name"] for each in found.entries["exchanges"]] == ["news", "jms.topic.t"]
    assert [(each["source"], each["destination"]) for each in found.entries["bindings"]] == [("news", "copy")]
    assert [each.subject for each in found.remarks] == ["<filter>", "<entry>", "<connection-factory>"]


@pytest.mark.parametrize(
    ("inner", "settings"),
    [
        ("<max-delivery-attempts>-1</max-delivery-attempts>", {"delivery-limit": -1}),
        ("<max-delivery-attempts>1</max-delivery-attempts>", {"delivery-limit": 0}),
        ("<slow-consumer-threshold>-1</slow-consumer-threshold>", {"slow-consumer-threshold": -1}),
        ("<auto-create-jms-queues>true</auto-create-jms-queues>", {"auto-create-queues": "true"}),
        ("<max-size-bytes> -1 </max-size-bytes>", {"max-size-bytes": -1}),
    ],
)
def test_numbers_of_an_address_setting(inner: str, settings: dict[str, object]) -> None:
    assert settings_of(setting(inner)) == {"queue a": settings}


@pytest.mark.parametrize(
    "inner",
    [
        "",
        "<slow-consumer-threshold>0</slow-consumer-threshold>",
        "<slow-consumer-threshold-measurement-unit>MESSAGES_PER_DAY</slow-consumer-threshold-measurement-unit>",
        "<expiry-delay>-1</expiry-delay>",
        "<dead-letter-address/>",
        "<min-expiry-delay>5</min-expiry-delay>",
        "<a-name-of-tomorrow>5</a-name-of-tomorrow>",
    ],
)
def test_element_without_meaning_is_remarked(inner: str) -> None:
    found = convert_artemis(setting(inner).encode())
    assert len(found.remarks) == 1
    assert found.entries == {}


def test_matches_are_translated_from_other_wildcard_characters() -> None:
    wildcards = "<delimiter>/</delimiter><any-words>&gt;</any-words><single-word>+</single-word>"
    around = f"<wildcard-addresses><routing-enabled>true</routing-enabled>{wildcards}</wildcard-addresses>"
    bound = "<max-size-messages>5</max-size-messages>"
    assert list(settings_of(setting(bound, "a/+/&gt;", around))) == ["queue a.*.#"]
    assert remarks_of(setting(bound, "a.b/c", around))[1:] == [(1, "<address-setting> a.b/c")]
    assert error_of(setting(bound, "a", around.replace("/<", "//<"))) == "line 1: delimiter '//' must be one character"


def test_limits_of_the_broker_follow_their_precedence() -> None:
    both = "<core><max-disk-usage>90</max-disk-usage><min-disk-free>2GB</min-disk-free></core>"
    assert settings_of(both) == {"broker ": {"min-disk-free": 2 << 30}}
    assert remarks_of(both) == [(1, "<max-disk-usage>")]
    assert remarks_of("<core><global-max-size>-1</global-max-size></core>") == [(1, "<global-max-size>")]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            setting("<max-sise-bytes>5</max-sise-bytes>"),
            "line 1: 'max-sise-bytes' is not known; did you mean max-size-bytes?",
        ),
        ("<core>\n<adress-settings/></core>", "line 2: 'adress-settings' is not known; did you mean address-settings?"),
        (
            "<address-settings>\n<address-setting/></address-settings>",
            "line 2: an address-setting needs the attribute match",
        ),
        (
            setting("<max-delivery-attempts>ten</max-delivery-attempts>"),
            "line 1: max-delivery-attempts 'ten' must be a whole number",
        ),
        (
            '<core><addresses><address name="a"><anycast><queue name="a"><durable>${x}</durable></queue></anycast>'
            "</address></addresses></core>",
            "line 1: durable '${x}' is neither true nor false",
        ),
        (
            "<broker/>",
            "line 1: <broker> is no configuration of Artemis; it begins with configuration, core or address-settings",
        ),
    ],
)
def test_error_names_line_and_rule(text: str, error: str) -> None:
    assert error_of(text) == error


def test_error_of_the_broker_names_the_line_of_the_source(own_broker: BrokerProcess, tmp_path: Path) -> None:
    file = tmp_path / "broker.xml"
    file.write_text(EXAMPLE.replace("100000", "lots"))
    refused = run(own_broker, "definitions", "import", "--from", "artemis", str(file), code=1)
    subject = "line 2, settings[0]: queue 'jms.queue.exampleQueue'"
    assert f"{subject}: max-size-bytes must be bytes from 0 (such as 64MiB), or -1 or none, not 'lots'" in refused
    assert "nothing was imported" in refused
