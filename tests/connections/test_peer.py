"""Network of a peer, traffic rates of a connection, and its TLS in RabbitMQ's words."""

from __future__ import annotations

import pytest

from penstock.connections.peer import THIS_MACHINE, WITHOUT, Peer, TlsSession, Traffic, network_of, rabbitmq_fields
from penstock.driver.driver import BrokerDriver
from tests.support.driven_connection import Dialogue, output_of, publish


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


@pytest.mark.parametrize(
    ("address", "local", "ends"),
    [
        ("192.0.2.7:40312", "192.0.2.9:5672", "192.0.2.7:40312 -> 192.0.2.9:5672"),
        ("::1:40312", "::1:5672", "[::1]:40312 -> [::1]:5672"),
        ("fe80::2%eth0:1", "fe80::1%eth0:5672", "[fe80::2%eth0]:1 -> [fe80::1%eth0]:5672"),
        ("::ffff:192.0.2.7:1", "::ffff:192.0.2.9:5672", "192.0.2.7:1 -> 192.0.2.9:5672"),
        ("unknown:0", "unknown:0", "unknown:0 -> unknown:0"),
        ("192.0.2.7:1", "", "192.0.2.7:1 -> unknown:0"),
    ],
)
def test_peer_names_both_ends_as_rabbitmq_names_a_connection(address: str, local: str, ends: str) -> None:
    assert Peer(address, False, local).ends() == ends


def test_peers_on_this_machine_are_a_single_network() -> None:
    assert network_of("127.0.0.1", True) == network_of("::1", True) == THIS_MACHINE


def test_peer_has_the_network_of_the_host_without_the_port() -> None:
    peer = Peer("192.0.2.7:4711", False)
    assert (peer.network, peer.properties, peer.mechanism) == ("192.0.2.7", {}, "")


def counts(traffic: Traffic) -> tuple[int, int, int, int]:
    return int(traffic.received), int(traffic.sent), int(traffic.reads), int(traffic.writes)


def test_traffic_counts_reads_and_writes_of_a_connection(driver: BrokerDriver) -> None:
    client = Dialogue(driver).declare("q")
    before = counts(client.connection.peer.traffic)
    assert min(before) > 0
    frames = publish("q", b"x" * 100)
    client.connection.receive(frames)
    client.connection.receive_later(frames)
    received, sent, reads, writes = counts(client.connection.peer.traffic)
    assert (received - before[0], reads - before[2]) == (2 * len(frames), 2)
    assert (sent, writes) == (before[1], before[3])
    client.connection.output.buffer.write(b"\x08\x00\x00\x00\x00\x00\x00\xce")
    taken = output_of(client.connection)
    assert counts(client.connection.peer.traffic)[1::2] == (sent + len(taken), writes + 1)
    assert output_of(client.connection) == b""
    assert counts(client.connection.peer.traffic)[3] == writes + 1, "nothing to write is no write"


def test_traffic_rates_are_since_the_last_sample_or_the_opening() -> None:
    traffic = Traffic()
    traffic.count_received(1000)
    traffic.count_sent(10)
    traffic.sample(14.0, 12.0)
    assert (traffic.received_rate, traffic.sent_rate) == (500.0, 5.0)
    traffic.count_sent(40)
    traffic.sample(18.0, 12.0)
    assert (traffic.received_rate, traffic.sent_rate) == (0.0, 10.0)
    traffic.count_sent(40)
    traffic.sample(18.0, 12.0)
    assert traffic.sent_rate == 10.0, "no time has passed"
    traffic.sample(20.0, 12.0)
    assert traffic.sent_rate == 20.0, "and nothing was lost"


def test_traffic_of_ended_connections_is_added_up() -> None:
    one, other = Traffic(), Traffic()
    one.count_received(3)
    other.count_received(4)
    other.count_sent(5)
    one.add(other)
    assert counts(one) == (7, 5, 2, 1)


@pytest.mark.parametrize(
    ("suite", "exchange", "cipher", "digest"),
    [
        ("TLS_AES_256_GCM_SHA384", "any", "aes_256_gcm", "aead"),
        ("TLS_CHACHA20_POLY1305_SHA256", "any", "chacha20_poly1305", "aead"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ecdhe_rsa", "aes_128_gcm", "aead"),
        ("ECDHE-ECDSA-CHACHA20-POLY1305", "ecdhe_ecdsa", "chacha20_poly1305", "aead"),
        ("ECDHE-RSA-AES256-SHA384", "ecdhe_rsa", "aes_256_cbc", "sha384"),
        ("AES128-SHA", "rsa", "aes_128_cbc", "sha"),
    ],
)
def test_cipher_suite_is_named_as_in_rabbitmq(suite: str, exchange: str, cipher: str, digest: str) -> None:
    fields = rabbitmq_fields(TlsSession("TLSv1.3", suite))
    assert fields["ssl_protocol"] == "tlsv1.3"
    assert (fields["ssl_key_exchange"], fields["ssl_cipher"], fields["ssl_hash"]) == (exchange, cipher, digest)
    assert fields["peer_cert_subject"] is None


def test_connection_without_tls_has_the_same_fields() -> None:
    assert rabbitmq_fields(None) == WITHOUT
    assert WITHOUT.keys() == rabbitmq_fields(TlsSession("TLSv1.3", "TLS_AES_256_GCM_SHA384")).keys()


def test_peer_gets_the_user_of_the_certificate_after_the_handshake() -> None:
    peer = Peer("10.0.0.1:5", False)
    session = TlsSession("TLSv1.3", "TLS_AES_256_GCM_SHA384")
    session.user = "ada"
    peer.secure(session)
    assert (peer.tls, peer.tls_subject) == (session, "ada")
