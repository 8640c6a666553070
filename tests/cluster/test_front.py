"""Listeners of a node with shards: TLS by the server's name and by a relay, Unix sockets, and certificates."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import pika
import pytest
from cryptography import x509
from proton import SSLDomain
from proton.utils import BlockingConnection as ProtonConnection

from penstock.cluster.front import NO_ADDRESS
from penstock.sync import connect
from tests.support.brokers import PATIENCE, BrokerProcess, eventually, serving, settings_file
from tests.support.certificates import Authority
from tests.support.commands import refused
from tests.support.raw_client import Peer

SETTINGS = """\
[broker]
listen-tls = ["127.0.0.1:0"]
vhosts = ["/", "west", "east.example.com"]
shards = 3

[users]
guest = "guest"
ada = "lovelace"

[tls]
certificate = "server.pem"
key = "server-key.pem"

[tls.names."shop.example.com"]
certificate = "shop.pem"
key = "shop-key.pem"
vhost = "west"
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    authority.issue("server", "localhost", "127.0.0.1", "east.example.com")
    authority.issue("shop", "shop.example.com")
    return authority


@contextmanager
def tls_node(authority: Authority, data: Path) -> Iterator[BrokerProcess]:
    options = (*settings_file(authority.folder, SETTINGS), "--data", str(data), "--listen", f"unix:{data}.sock")
    with serving(authority.folder, *options) as node:
        yield node


@pytest.fixture(scope="module")
def node(authority: Authority) -> Iterator[BrokerProcess]:
    with tls_node(authority, authority.folder / "data") as node:
        yield node


def over_tls(node: BrokerProcess, authority: Authority, name: str, vhost: str) -> pika.BlockingConnection:
    """Connect with TLS to a server of this name."""
    options = pika.SSLOptions(authority.trusting(), name)
    login = pika.PlainCredentials("guest", "guest")
    where = pika.ConnectionParameters("127.0.0.1", node.tls_port, vhost, login, ssl_options=options)
    return pika.BlockingConnection(where)


def is_served_without_the_parent(node: BrokerProcess, connection: pika.BlockingConnection) -> bool:
    """Return whether a client is answered while the process that listens stands still."""
    channel = connection.channel()
    node.pause()
    try:
        return channel.queue_declare("q", auto_delete=True).method.queue == "q"
    finally:
        node.go_on()


@pytest.mark.parametrize(
    ("name", "vhost"), [("shop.example.com", "west"), ("SHOP.example.com", "west"), ("east.example.com",) * 2]
)
def test_client_with_a_known_server_name_needs_no_parent(
    node: BrokerProcess, authority: Authority, name: str, vhost: str
) -> None:
    with over_tls(node, authority, name, vhost) as connection:
        assert is_served_without_the_parent(node, connection)


@pytest.mark.parametrize("vhost", ["/", "west"])
def test_client_without_a_known_server_name_is_relayed_to_its_shard(
    node: BrokerProcess, authority: Authority, vhost: str
) -> None:
    with over_tls(node, authority, "localhost", vhost) as connection:
        channel = connection.channel()
        channel.queue_declare("orders")
        channel.basic_publish("", "orders", b"x" * 300_000)
        _, _, body = channel.basic_get("orders", auto_ack=True)
        assert body == b"x" * 300_000
        channel.queue_delete("orders")


def test_vhost_that_proton_names_is_the_server_name(node: BrokerProcess, authority: Authority) -> None:
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(authority.ca))
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER)
    url = f"amqps://guest:guest@localhost:{node.tls_port}"
    proton = ProtonConnection(url, timeout=PATIENCE, ssl_domain=domain, allowed_mechs="PLAIN", virtual_host="west")
    proton.close()  # Its certificate is that of the default name: a check of the name would fail.


@pytest.mark.parametrize("protocol", ["amqp091", "amqp10"])
def test_client_of_a_unix_socket_reaches_the_shard_of_its_vhost(
    node: BrokerProcess, authority: Authority, protocol: str
) -> None:
    where = quote(f"{authority.folder}/data.sock", safe="")
    for vhost in ("%2f", "west"):
        with connect(f"amqp://guest:guest@{where}/{vhost}", protocol=protocol) as client:
            client.declare_queue("mine", exclusive=True)


def test_unknown_vhost_over_tls_is_refused_by_its_name(node: BrokerProcess, authority: Authority) -> None:
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="vhost nowhere not found"):
        over_tls(node, authority, "localhost", "nowhere")
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="vhost / not found"):
        over_tls(node, authority, "shop.example.com", "/")


def serial(node: BrokerProcess, authority: Authority, name: str) -> int:
    """Return the serial number of the certificate that a server of this name shows."""
    context = authority.trusting()
    context.check_hostname = False
    peer = Peer(("127.0.0.1", node.tls_port))
    with closing(context.wrap_socket(peer.socket, server_hostname=name)) as found:
        shown = found.getpeercert(binary_form=True)
        assert shown is not None
        return x509.load_der_x509_certificate(shown).serial_number


def test_reload_serves_new_certificates_in_the_node_and_in_shards(authority: Authority, tmp_path: Path) -> None:
    with tls_node(authority, tmp_path / "data") as node:
        before = {name: serial(node, authority, name) for name in ("localhost", "shop.example.com")}
        authority.issue("server", "localhost", "127.0.0.1", "east.example.com")
        authority.issue("shop", "shop.example.com")
        node.process.send_signal(signal.SIGHUP)
        for name, old in before.items():
            eventually(lambda name=name, old=old: serial(node, authority, name) != old, f"a new certificate of {name}")


def test_reload_by_an_operation_reaches_shards_and_names_its_user(authority: Authority, tmp_path: Path) -> None:
    with tls_node(authority, tmp_path / "data") as node:
        before = serial(node, authority, "shop.example.com")
        authority.issue("shop", "shop.example.com")
        where = quote(f"{tmp_path}/data.sock", safe="")
        with connect(f"amqp://guest:guest@{where}/west", protocol="amqp091") as client:
            assert len(client.request("tls.reload")["certificates"]) == 2
        eventually(lambda: serial(node, authority, "shop.example.com") != before, "a new certificate of the shard")
        assert "were reloaded by user 'guest'" in node.await_logged("settings of tls")[0]


def test_certificate_that_cannot_be_read_stops_the_start(authority: Authority, tmp_path: Path) -> None:
    settings = SETTINGS.replace('"shop.pem"', '"none.pem"')
    file = settings_file(authority.folder, settings)
    said = refused("serve", "--quiet", *file, "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    assert "none.pem" in said


def test_node_without_an_address_is_refused(tmp_path: Path) -> None:
    file = settings_file(tmp_path, "[broker]\nlisten = []\n")
    assert refused("serve", *file, "--data", str(tmp_path / "data"), "--shards", "1") == NO_ADDRESS


def test_connections_have_one_number_in_the_whole_node(node: BrokerProcess, authority: Authority) -> None:
    with ExitStack() as open_ones:
        for name, vhost in (("localhost", "/"), ("shop.example.com", "west"), ("localhost", "east.example.com")):
            open_ones.enter_context(over_tls(node, authority, name, vhost))
        opened = eventually(lambda: found if len(found := numbers(node)) >= 3 else None, "three open connections")
    assert len(set(opened)) == len(opened)


def numbers(node: BrokerProcess) -> list[str]:
    """Return the numbers of all connections that were opened."""
    return [line.partition("[con:")[2].partition("(")[0] for line in node.logged("CON-1001")]
