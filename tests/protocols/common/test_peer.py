"""The network of a peer, which bounds apply to."""

from __future__ import annotations

import pytest

from penstock.protocols.common.peer import THIS_MACHINE, Peer, network_of


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:bbbb::9", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("somewhere", "somewhere"),
    ],
)
def test_peer_network_is_an_ipv4_address_or_the_first_half_of_an_ipv6_address(host: str, network: str) -> None:
    assert network_of(host, False) == network


def test_peers_on_this_machine_are_one_network() -> None:
    assert network_of("127.0.0.1", True) == network_of("::1", True) == THIS_MACHINE


def test_peer_has_the_network_of_its_host_without_the_port() -> None:
    peer = Peer("192.0.2.7:4711", False)
    assert (peer.network, peer.properties, peer.mechanism) == ("192.0.2.7", {}, "")
