"""Mechanisms that a client is offered."""

from __future__ import annotations

from penstock.protocols.common.mechanisms import (
    AMQPLAIN,
    ANONYMOUS,
    EXTERNAL,
    PLAIN,
    SCRAM,
    is_permitted,
    offered_mechanisms,
)
from penstock.protocols.common.peer import Peer
from tests.support.driven_connection import make_driver

ALL = (EXTERNAL, SCRAM, PLAIN, AMQPLAIN, ANONYMOUS)


def peer(address: str = "10.0.0.1", subject: str = "") -> Peer:
    found = Peer(f"{address}:1", address.startswith("127."))
    found.tls_subject = subject
    return found


def test_a_protocol_offers_what_it_knows_in_the_order_of_the_settings() -> None:
    services = make_driver().services
    assert offered_mechanisms(services, peer(), ALL) == [SCRAM, PLAIN, AMQPLAIN]
    assert offered_mechanisms(services, peer(), (PLAIN, EXTERNAL)) == [PLAIN]
    assert offered_mechanisms(services, peer("127.0.0.1"), ALL) == [SCRAM, PLAIN, AMQPLAIN, ANONYMOUS]
    assert offered_mechanisms(services, peer(subject="ada"), ALL)[0] == EXTERNAL
    services.connection_limits.sasl_mechanisms = [AMQPLAIN, SCRAM]
    assert offered_mechanisms(services, peer(subject="ada"), ALL) == [AMQPLAIN, SCRAM]


def test_passwords_that_others_can_read_may_be_forbidden() -> None:
    services = make_driver().services
    services.connection_limits.insecure_mechanisms = [SCRAM]
    assert offered_mechanisms(services, peer(), ALL) == [SCRAM]
    assert offered_mechanisms(services, peer("127.0.0.1"), ALL) == [SCRAM, PLAIN, AMQPLAIN, ANONYMOUS]
    assert is_permitted(services.connection_limits, PLAIN, protected=True)
    assert not is_permitted(services.connection_limits, PLAIN, protected=False)
