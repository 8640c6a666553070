"""The tables of tests/checklists/README.md: lines of other brokers' tests with the test here, and lines without one.

A line is the docstring of its test in
tests/checklists; those without a test there have a reason here, or a test elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.support.generated_parts import ROOT, documented_tests, escaped, table

CHECKLISTS = ROOT / "tests" / "checklists"
QPID, JAVA, ARTEMIS = "Qpid C++", "Broker-J", "Artemis"
FILES = {
    QPID: ("test_qpid_cpp_thresholds.py", "test_qpid_cpp.py", "test_qpid_cpp_policies.py"),
    JAVA: ("test_broker_j.py", "test_broker_j_policies.py"),
    ARTEMIS: ("test_artemis.py", "test_artemis_windows.py", "test_artemis_gates.py"),
}
"""The files of each broker, in the order of its checklist."""
LINE = re.compile(rf"^({re.escape(QPID)}|{JAVA}|{ARTEMIS})(?:'s client)?, ([^:]+): (.+)$")
"""Broker, part of its checklist, and the line."""
NO_CLUSTERS = "there are no clusters"
ELSEWHERE: dict[str, tuple[tuple[str, str], ...]] = {
    QPID: (
        ("cluster: equal state on all members, joining while stopped, deletion on another member", NO_CLUSTERS),
        ("reject and ring on backups", NO_CLUSTERS),
        (
            "what a ring drops goes to the alternate exchange",
            "an alternate exchange takes what no binding takes (RabbitMQ's meaning); what a ring drops goes to the "
            "dead-letter exchange",
        ),
        (
            "a ring with priorities",
            "what would be delivered first is dropped, as in RabbitMQ: "
            "`tests/compat/test_priorities.py::test_full_ring_drops_the_message_that_would_be_delivered_first`",
        ),
        (
            "*not tested there:* AMQP 1.0",
            "`tests/seeds/test_qpid_cpp.py::test_confirmations_are_withheld_in_both_protocols`",
        ),
        (
            "*not tested there:* restart while stopped",
            "`tests/seeds/test_qpid_cpp.py::test_thresholds_are_those_of_the_declaration_also_after_a_restart`",
        ),
    ),
    JAVA: (
        (
            "enforcement against clients that ignore `channel.flow`",
            "no test there to take over; here `tests/protocols/amqp091/test_channel.py::"
            "test_channel_with_confirms_is_closed_after_the_enforcement_time`",
        ),
        ("copying messages respects limits", "no operation copies messages"),
    ),
    ARTEMIS: (
        (
            "a client's credits are shared and counted by session and address",
            "credit of AMQP 1.0 is a link's: `tests/seeds/test_artemis.py::"
            "test_credit_never_exceeds_the_capacity_of_an_address`",
        ),
        ("initial credit is twice the return threshold", "credits of consumers are not on the wire"),
        ("expired in the buffer, compressed", "what is delivered does not expire; nothing is compressed"),
        ("failover while a credit is on its way", NO_CLUSTERS),
        (
            "rates: the average holds, and no burst is stored while idle; they are smooth",
            "`tests/seeds/test_artemis.py::test_consumer_is_never_faster_than_its_rate`; in virtual time "
            "`tests/core/gates/test_rate_gate.py::"
            "test_rate_passes_a_message_more_in_any_second_also_after_idle_time`",
        ),
        ("slow consumer: while paging, units of minutes and days, a tiny thread pool", "one unit, no threads"),
        (
            "PAGE, page limits with DROP and FAIL; release after consumption; a limit that changes; restart",
            "`tests/core/queue/test_pager.py::test_page_limit_holds_publishes_until_there_is_room` and those beside it",
        ),
        ("OpenWire and core clients on the same queue", "AMQP 0-9-1 and AMQP 1.0 only"),
        (
            "disk full",
            "`tests/server/test_disk_room.py::test_quota_blocks_and_opens_again_when_consumers_have_drained`",
        ),
        ("changed estimates of a size", "a charge is fixed when the message comes"),
        (
            "AMQP: link credit, drain, detach, coordinator links",
            "`tests/seeds/test_artemis.py::test_producer_sends_as_long_as_it_has_credit`, and the tests of Qpid Proton "
            "in tests/clients",
        ),
        ("OpenWire, STOMP, MQTT windows", "AMQP 0-9-1 and AMQP 1.0 only"),
    ),
}
"""Lines without a test in tests/checklists, by broker: a test elsewhere, or the reason."""


def lines_of(broker: str) -> Iterator[tuple[str, str, str]]:
    """Yield part, line and test of a broker's checklist."""
    for file in FILES[broker]:
        for name, docstring in documented_tests(CHECKLISTS / file):
            found = LINE.match(docstring)
            assert found, f"{file}: {name} does not begin with a broker, a part and a line"
            assert found[1] == broker, f"{file}: {name} belongs to {found[1]}"
            yield found[2], found[3], name


def tables() -> dict[str, str]:
    """Return all tables by their names."""
    parts = {}
    for broker in FILES:
        rows = [(escaped(part), escaped(line), f"`{name}`") for part, line, name in lines_of(broker)]
        parts[f"tests of {broker}"] = table(("part", "asserted there, and what differs here", "test"), *rows)
        parts[f"without a test, {broker}"] = table(("asserted there", "here"), *ELSEWHERE[broker])
    return parts
