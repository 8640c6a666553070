"""Users and permissions of a whole broker: stored in both stores, and the settings file reloaded."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from penstock.client.errors import ConnectionClosed
from penstock.sync import connect
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite, encode_composite
from penstock.wire.amqp10.frames import SASL_HEADER, frame
from tests.support.brokers import PATIENCE, BrokerProcess, eventually, penstock_command, serving, settings_file
from tests.support.commands import run
from tests.support.raw_channel import Connection

SECRET = "hushhushhush"


def salt_of(broker: BrokerProcess, user: str) -> bytes:
    """The salt in the first challenge of SCRAM-SHA-256, from a client of AMQP 1.0."""
    init = composite(spec.SASL_INIT, mechanism="SCRAM-SHA-256", initial_response=f"n,,n={user},r=abcdef".encode())
    with socket.create_connection((broker.host, broker.port), PATIENCE) as client:
        client.sendall(SASL_HEADER + frame(0, encode_composite(init), spec.FRAME_SASL))
        heard = b""
        while b",i=4096" not in heard:
            more = client.recv(4096)
            assert more, f"no challenge in {heard!r}"
            heard += more
    return heard.partition(b",s=")[2].partition(b",")[0]


def test_salts_of_scram_survive_a_restart_for_any_name(store: tuple[str, str], tmp_path: Path) -> None:
    users = ("anna", "eve", "ada")
    options = (*settings_file(tmp_path, "[users]\nada = 'lovelace'\n"), *store)
    with serving(tmp_path, *options) as broker:
        with connect(broker.url_of("ada", "lovelace"), protocol="amqp091") as control:
            control.request("user.declare", name="anna", tags=[])
        before = [salt_of(broker, user) for user in users]
        assert len(set(before)) == 3
    with serving(tmp_path, *options) as broker:
        assert [salt_of(broker, user) for user in users] == before


def test_users_survive_a_restart_and_their_passwords_are_shown_nowhere(store: tuple[str, str], tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    with serving(tmp_path, *store) as broker:
        run(broker, "users", "add", "root", "--tags", "administrator", "--password-file", str(secret))
        run(broker, "users", "add", "anna", "--password-file", str(secret))
        run(broker, "permissions", "set", "anna", "^a", "^b", "^c")
        run(broker, "permissions", "set", "root", ".*", ".*", ".*")
        run(broker, "limits", "set", "vhost", "/", "max-queues=100")
        run(broker, "users", "delete", "guest")
        log = broker.log()
        broker.kill()
    with serving(tmp_path, *store) as broker:
        root = ("--url", broker.url_of("root", SECRET))
        assert penstock_command("users", "list").returncode == 1, "guest stays away"
        listed = penstock_command("permissions", "list", "--user", "anna", "--json", *root).stdout
        assert '"configure": "^a"' in listed
        assert "max-queues=100" in penstock_command("limits", "list", *root).stdout
        with Connection(broker.url_of("anna", SECRET)) as connection:
            connection.channel().queue_declare("anna-1")
        log += broker.log()
    assert SECRET not in log
    assert "Traceback" not in log


def test_limit_of_queues_does_not_lock_out_the_commands_for_limits(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        run(broker, "declare", "queue", "only")
        run(broker, "limits", "set", "vhost", "/", "max-queues=1")
        assert "queue limit in vhost '/' (1) is reached" in run(broker, "declare", "queue", "more", code=1)
        assert "only" in run(broker, "list", "queues")
        run(broker, "limits", "set", "vhost", "/", "max-queues=2")
        with connect(broker.url, protocol="amqp091") as control:
            control.status()
            run(broker, "declare", "queue", "more")  # Those for answers do not count.
        run(broker, "limits", "set", "vhost", "/", "max-queues=0")
        run(broker, "limits", "clear", "vhost", "/", "max-queues")


def test_policy_of_all_names_does_not_take_the_answers_of_the_commands(tmp_path: Path) -> None:
    """An operator policy is stronger than the arguments of the queue for answers."""
    with serving(tmp_path) as broker:
        run(broker, "declare", "queue", "only")
        made = ("policies", "set", "tight", ".*", "capacity-bytes=1", "overflow=reject", "message-ttl=0", "--operator")
        assert run(broker, *made).splitlines() == [
            "policy tight is set",
            "it applies to queue only",
            "overflow changes for queue only: refuses publishes at 1 bytes; before: holds publishers at "
            "104,857,600 bytes",
        ]
        assert "only" in run(broker, "list", "queues")
        assert run(broker, "set", "queue", "#", "hold-deadline=1").endswith("queue '#' matches only\n")
        run(broker, "policies", "clear", "tight", "--operator")


def test_settings_file_that_is_read_again_changes_users(tmp_path: Path) -> None:
    config = tmp_path / "penstock.toml"
    config.write_text(f'[users]\nroot = "{SECRET}"\nanna = "{SECRET}"\n')
    config.chmod(0o644)
    with serving(tmp_path, "--config", str(config)) as broker:
        broker.await_logged(f"'{config}' has passwords and can be read by others")
        anna = Connection(broker.url_of("anna", SECRET))
        refused = penstock_command("users", "delete", "anna", "--url", broker.url_of("root", SECRET))
        assert "user 'anna' is in the settings file, [users]; change it there and reload (SIGHUP)" in refused.stderr
        config.write_text(f'[users]\nroot = "{SECRET}"\notto = "{SECRET}"\n')
        broker.process.send_signal(signal.SIGHUP)
        eventually(lambda: "is in effect" in broker.log(), "the file is read again")
        with pytest.raises(ConnectionClosed, match="user 'anna' may not use vhost '/' any more"):
            anna.wait_for(lambda: False, "the broker closes it")
        with Connection(broker.url_of("otto", SECRET)):
            pass
        assert SECRET not in broker.log()


def test_bad_user_stops_the_start_with_one_sentence(tmp_path: Path) -> None:
    config = tmp_path / "penstock.toml"
    config.write_text(f'[users]\nroot = {{ password_hash = "{SECRET}", hashing_algorithm = "rot13" }}\n')
    done = penstock_command("serve", "--listen", "127.0.0.1:0", "--memory", "--config", str(config))
    assert done.returncode != 0
    assert (
        f"'{config}' line 2: user 'root' in [users]: unknown hashing_algorithm 'rot13'; known are scrypt" in done.stderr
    )
    assert SECRET not in done.stderr
