"""SASL mechanisms that the broker offers."""

from __future__ import annotations

from penstock.connections.sasl_mechanisms import (
    AMQPLAIN,
    ANONYMOUS,
    EXTERNAL,
    PLAIN,
    SCRAM,
    is_permitted,
    offered_mechanisms,
)
from tests.support.driven_connection import make_driver
from tests.support.logging_in import peer_at

ALL = (EXTERNAL, SCRAM, PLAIN, AMQPLAIN, ANONYMOUS)


def test_sasl_mechanisms_are_offered_in_the_order_of_the_settings() -> None:
    services = make_driver().services
    assert offered_mechanisms(services, peer_at(), ALL) == [SCRAM, PLAIN, AMQPLAIN]
    assert offered_mechanisms(services, peer_at(), (PLAIN, EXTERNAL)) == [PLAIN]
    assert offered_mechanisms(services, peer_at("127.0.0.1"), ALL) == [SCRAM, PLAIN, AMQPLAIN, ANONYMOUS]
    assert offered_mechanisms(services, peer_at(subject="ada"), ALL)[0] == EXTERNAL
    services.connection_limits.change(sasl_mechanisms=[AMQPLAIN, SCRAM])
    assert offered_mechanisms(services, peer_at(subject="ada"), ALL) == [AMQPLAIN, SCRAM]


def test_passwords_readable_on_the_network_may_be_forbidden() -> None:
    services = make_driver().services
    services.connection_limits.change(insecure_mechanisms=[SCRAM])
    assert offered_mechanisms(services, peer_at(), ALL) == [SCRAM]
    assert offered_mechanisms(services, peer_at("127.0.0.1"), ALL) == [SCRAM, PLAIN, AMQPLAIN, ANONYMOUS]
    assert is_permitted(services.connection_limits, PLAIN, protected=True)
    assert not is_permitted(services.connection_limits, PLAIN, protected=False)


def test_internal_peer_is_offered_external_alone_whatever_the_settings() -> None:
    services = make_driver().services
    services.connection_limits.change(sasl_mechanisms=[PLAIN])
    peer = peer_at("127.0.0.1")
    peer.vouch("ada")
    assert offered_mechanisms(services, peer, ALL) == [EXTERNAL]
