"""Tokens of OAuth 2 with a whole broker: over AMQP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from penstock.client.errors import LoginRefused
from tests.support.brokers import BrokerProcess, serving, settings_file
from tests.support.raw_channel import Connection
from tests.support.raw_client import Peer
from tests.support.tokens import pem, rsa_key, token


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "key.pem").write_bytes(pem(rsa_key()))
    options = settings_file(
        folder, '[broker]\ninitial-frame-max = 16384\n[oauth]\nresource_server_id = "penstock"\nkeys = "key.pem"\n'
    )
    with serving(folder, *options, "--http", "127.0.0.1:0") as process:
        yield process
        assert "Traceback" not in process.log()


def test_token_logs_in_with_the_permissions_of_its_scopes(broker: BrokerProcess) -> None:
    given = token("penstock.configure:*/mine*", "penstock.write:*/mine*", "penstock.read:*/mine*")
    with Connection(broker.url_of("anna", given)) as connection:
        channel = connection.channel()
        channel.queue_declare("mine")
        with pytest.raises(Exception, match="configure access to queue 'other' in vhost '/' refused for user 'anna'"):
            channel.queue_declare("other")


def test_token_of_another_is_refused(broker: BrokerProcess) -> None:
    with pytest.raises(LoginRefused):
        Connection(broker.url_of("anna", token("penstock.read:*/*", key=rsa_key("another"))))
    broker.await_logged("token is signed by another than the key that it names")


@pytest.mark.parametrize("user", ["\ud800", "anna\nroot"])
def test_token_whose_user_is_no_name_is_refused(broker: BrokerProcess, user: str) -> None:
    with pytest.raises(LoginRefused):
        Connection(broker.url_of("anna", token("penstock.read:*/*", sub=user)))
    broker.await_logged("of the token's user has a control character or a lone surrogate")


def test_connection_ends_with_its_token(broker: BrokerProcess) -> None:
    given = token("penstock.read:*/*", exp=time.time() - 28)
    with closing(Peer(broker)) as peer:
        peer.open(user="anna", password=given)
        code, text = peer.refused(0)
    assert code == 403
    assert "provided JWT token has expired at timestamp" in text
