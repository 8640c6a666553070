"""Configurations of Qpid's Java broker as definitions: the document's examples, and each kind of element."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.conversions.qpid_java import convert_qpid_java
from penstock.errors import ConfigError
from tests.support.brokers import BrokerProcess, eventually
from tests.support.commands import run
from tests.support.raw_channel import Connection

QUEUE = """\
<queue>
    <name>test</name>
    <test>
        <exchange>amq.direct</exchange>
        <capacity>10485760</capacity>
        <flowResumeCapacity>8388608</flowResumeCapacity>
    </test>
</queue>
"""
DEFAULTS = """\
<virtualhosts>
    <virtualhost>
        <name>localhost</name>
        <localhost>
            <queues>
                <capacity>10485760</capacity>
                <flowResumeCapacity>8388608</flowResumeCapacity>
            </queues>
        </localhost>
    </virtualhost>
</virtualhosts>
"""
STORE = """\
<store>
    <class>org.apache.qpid.server.store.berkeleydb.BDBMessageStore</class>
    <environment-path>${work}/bdbstore/test</environment-path>
    <overfull-size>50000000</overfull-size>
    <underfull-size>45000000</underfull-size>
</store>
"""
"""The examples of the wiki page Producer Flow Control, with the tags that its copy has lost."""

WHOLE = """\
<virtualhosts>
  <default>test</default>
  <virtualhost>
    <name>test</name>
    <test>
      <housekeeping><checkPeriod>20000</checkPeriod></housekeeping>
      <exchanges>
        <exchange><name>logs</name><type>topic</type><durable>true</durable></exchange>
      </exchanges>
      <queues>
        <exchange>amq.direct</exchange>
        <maximumQueueDepth>4235264</maximumQueueDepth>
        <capacity>5000</capacity>
        <flowResumeCapacity>4000</flowResumeCapacity>
        <queue>
          <name>MyQueue</name>
          <MyQueue>
            <durable>true</durable>
            <capacity>1000</capacity>
            <flowResumeCapacity>800</flowResumeCapacity>
          </MyQueue>
        </queue>
        <queue>
          <name>large</name>
          <large><capacity>50000</capacity></large>
        </queue>
        <queue>
          <name>news</name>
          <news>
            <exchange>logs</exchange>
            <routingKey>eu.#</routingKey>
            <routingKey>us.#</routingKey>
            <priority>true</priority>
            <maximumDeliveryCount>5</maximumDeliveryCount>
            <autodelete>true</autodelete>
            <exclusive>true</exclusive>
          </news>
        </queue>
      </queues>
    </test>
  </virtualhost>
</virtualhosts>
"""


def convert(text: str) -> dict[str, list[dict[str, object]]]:
    return convert_qpid_java(text.encode()).entries


def value_in(shown: list[str], setting: str) -> str:
    return next(line.split()[1] for line in shown if line.startswith(setting))


def file_of(folder: Path, text: str) -> tuple[str, ...]:
    """Write a configuration; return the words that import it."""
    file = folder / "virtualhosts.xml"
    file.write_text(text)
    return ("definitions", "import", "--from", "qpid-java", str(file))


def test_queue_of_the_document_is_declared_and_bound() -> None:
    limits = {"capacity": 10485760, "flowResumeCapacity": 8388608}
    binding = {"source": "amq.direct", "destination": "test", "destination_type": "queue", "routing_key": "test"}
    assert convert(QUEUE) == {
        "queues": [{"name": "test", "durable": False, "auto_delete": False, "arguments": limits}],
        "bindings": [{**binding, "arguments": {}}],
    }


def test_default_of_the_document_is_a_policy_of_all_queues_of_its_virtual_host() -> None:
    definition = {"capacity": 10485760, "flowResumeCapacity": 8388608}
    rule = {"name": "qpid-java", "vhost": "localhost", "pattern": ".*", "apply-to": "queues", "priority": -1}
    assert convert(DEFAULTS) == {"vhosts": [{"name": "localhost"}], "policies": [{**rule, "definition": definition}]}


def test_default_may_be_in_the_virtual_host_itself() -> None:
    assert convert(DEFAULTS.replace("<queues>", "").replace("</queues>", "")) == convert(DEFAULTS)


def test_queue_may_be_in_its_virtual_host_and_named_queue() -> None:
    """As in the virtualhosts.xml of Qpid M2 to 0.5."""
    found = convert(
        "<virtualhost><name>test</name><test><maximumMessageCount>5000</maximumMessageCount>"
        "<queue><name>queue</name><queue><capacity>5</capacity></queue></queue></test></virtualhost>"
    )
    assert [(each["name"], each["vhost"], each["arguments"]) for each in found["queues"]] == [
        ("queue", "test", {"capacity": 5})
    ]


def test_quota_of_the_document_is_the_quota_of_its_virtual_host() -> None:
    quota = {"overfull-size": 50000000, "underfull-size": 45000000}
    assert convert(STORE) == {"settings": [{"scope": "broker", "pattern": "", "settings": quota}]}
    whole = DEFAULTS.replace("<queues>", STORE + "<queues>")
    assert convert(whole)["settings"] == [{"scope": "vhost", "pattern": "localhost", "settings": quota}]
    assert [each.subject for each in convert_qpid_java(STORE.encode()).remarks] == ["<class>", "<environment-path>"]


def test_log_of_the_document_follows_from_its_queue(own_broker: BrokerProcess, tmp_path: Path) -> None:
    queue = QUEUE.replace("test>", "MyQueue>").replace(">test", ">MyQueue")
    run(own_broker, *file_of(tmp_path, queue.replace("10485760", "1000").replace("8388608", "800")))
    with Connection(own_broker.url) as connection:
        channel = connection.channel()
        channel.publish(b"", exchange="amq.direct", routing_key="MyQueue")
        besides = eventually(lambda: own_broker.queue("MyQueue")["depth"]["bytes"], "an empty message")
        channel.queue_purge("MyQueue")
        for _ in range(4):
            channel.publish(b"x" * (300 - besides), exchange="amq.direct", routing_key="MyQueue")
        own_broker.await_logged("[vh(/)/qu(MyQueue)] QUE-1003 : Overfull : Size : 1,200 bytes, Capacity : 1,000")
        for _ in range(2):
            assert channel.get("MyQueue", no_ack=True) is not None
        own_broker.await_logged("[vh(/)/qu(MyQueue)] QUE-1004 : Underfull : Size : 600 bytes, Resume Capacity : 800")


def test_defaults_hold_for_other_queues_and_a_queues_own_for_itself(own_broker: BrokerProcess, tmp_path: Path) -> None:
    words = file_of(tmp_path, WHOLE)
    made = run(own_broker, *words).splitlines()
    assert made[-1] == "1 vhost, 3 policies, 1 exchange, 3 queues, 4 bindings created"
    with Connection(own_broker.url + "test") as connection:
        connection.channel().queue_declare("other")
    for queue, stop in (("other", "5000"), ("news", "5000"), ("large", "50000"), ("MyQueue", "1000")):
        shown = run(own_broker, "show", "queue", queue, vhost="test").splitlines()
        assert value_in(shown, "stop-bytes") == stop
        assert value_in(shown, "resume-bytes") == ("800" if queue == "MyQueue" else "4000")
    assert run(own_broker, *words, "--dry-run").splitlines()[-1] == "0 to be created, 0 to be changed, 12 unchanged"


def test_converted_queue_has_arguments_flags_and_bindings() -> None:
    found = convert(WHOLE)
    news = next(queue for queue in found["queues"] if queue["name"] == "news")
    assert news["arguments"] == {"x-max-priority": 9, "delivery-limit": 4}
    assert (news["durable"], news["auto_delete"]) == (False, True)
    assert [(each["source"], each["routing_key"]) for each in found["bindings"]] == [
        ("amq.direct", "MyQueue"),
        ("amq.direct", "large"),
        ("logs", "eu.#"),
        ("logs", "us.#"),
    ]


def test_elements_without_meaning_are_remarked() -> None:
    found = convert_qpid_java(WHOLE.encode())
    assert [(each.line, each.subject) for each in found.remarks] == [
        (2, "<default>"),
        (6, "<housekeeping>"),
        (12, "<maximumQueueDepth>"),
        (36, "<exclusive>"),
    ]


def test_attributes_are_remarked() -> None:
    found = convert_qpid_java(QUEUE.replace("<test>", '<test new="1">').encode())
    assert [(each.line, each.subject) for each in found.remarks] == [(3, "attribute new of <test>")]


def test_capacity_of_the_broker_is_for_every_queue_and_another_file_is_named() -> None:
    found = convert_qpid_java(
        b"<broker><capacity>5</capacity><virtualhosts>${conf}/v.xml</virtualhosts><connector/></broker>"
    )
    assert found.entries == {"settings": [{"scope": "queue", "pattern": "#", "settings": {"capacity": 5}}]}
    assert [(each.subject, each.reason) for each in found.remarks] == [
        ("<virtualhosts>", "the file '${conf}/v.xml' is not followed: convert it too"),
        ("<connector>", "ports are settings of the start (docs/settings.md)"),
    ]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (QUEUE.replace("capacity>", "capasity>"), "line 5: 'capasity' is not known; did you mean capacity?"),
        (
            QUEUE.replace("10485760", "${size}"),
            "line 5: capacity '${size}' has a variable; write its value instead",
        ),
        (
            QUEUE.replace("<exchange>", "<capacity>5</capacity><exchange>"),
            "line 5: <capacity> is there twice; the first is in line 4",
        ),
        (QUEUE.replace("<name>test</name>", ""), "line 1: <queue> needs a name: <name>NAME</name>"),
        (
            QUEUE.replace("<name>test", "<name>other"),
            "line 3: <test> in a queue named 'other'; its settings are in <other>",
        ),
        (
            "<configuration/>",
            "line 1: <configuration> is no configuration of the Java broker; it begins with broker, "
            "virtualhosts, virtualhost, queues, queue or store",
        ),
    ],
)
def test_error_names_line_and_rule(text: str, error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        convert(text)
    assert str(caught.value) == error
