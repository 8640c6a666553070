"""`penstock serve` from its first line to its last."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pamqp import commands

from tests.support.brokers import GRACE, BrokerProcess, eventually, in_process, penstock_command, serving
from tests.support.raw_client import Peer, open_peer, peer_of, publish_frames

ADDRESS = re.compile(r"amqp://127\.0\.0\.1:\d+")


def refused(*words: str) -> str:
    """Return the one sentence with which the command ends."""
    done = penstock_command(*words, timeout=GRACE)
    assert done.returncode == 1
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("penstock: ")
    return lines[0].removeprefix("penstock: ")


def test_what_comes_after_a_close_does_not_cost_the_client_the_answer(own_broker: BrokerProcess) -> None:
    with open_peer(own_broker) as peer:
        peer.send(0, commands.Connection.Close(200, "", 0, 0))
        peer.expect(0, commands.Connection.CloseOk)
        assert peer.is_closed()
        for _ in range(100):  # A socket that was closed altogether would be reset by the first of them.
            peer.say(publish_frames(1, "", "q", b"x" * 10_000))


def test_it_listens_on_every_address_and_names_them_in_its_ready_line(tmp_path: Path) -> None:
    with serving(tmp_path, listen=("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0")) as broker:
        assert len(set(broker.addresses)) == 3
        assert all(ADDRESS.fullmatch(address) for address in broker.addresses)
        for address in broker.addresses:
            with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), GRACE) as connected:
                connected.sendall(b"AMQP\x00\x00\x09\x01")
                assert connected.recv(1) == b"\x01"


def test_ipv6_is_an_address_like_any_other(tmp_path: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"this machine has no IPv6 loopback: {error}")
    with serving(tmp_path, listen=("[::1]:0",)) as broker:
        assert broker.addresses[0].startswith("amqp://[::1]:")
        socket.create_connection(("::1", broker.port), GRACE).close()


def test_a_second_broker_on_the_same_port_says_so_and_ends(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        place = f"127.0.0.1:{broker.port}"
        assert refused("serve", "--memory", "--listen", place).startswith(
            f"cannot listen on {place}: the port is in use"
        )
        assert broker.alive()


def test_a_second_broker_on_the_same_data_says_who_holds_it_and_ends(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(tmp_path, "--data", str(data)) as broker:
        said = refused("serve", "--listen", "127.0.0.1:0", "--data", str(data))
        assert said == f"data directory '{data}' is in use by another broker (process {broker.pid})"
        assert broker.alive()


def test_a_data_directory_is_free_again_when_its_broker_is_gone(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with serving(tmp_path, "--data", data) as broker:
        broker.process.kill()
        broker.process.wait(GRACE)
    with serving(tmp_path, "--data", data) as broker:
        assert broker.alive()


@pytest.mark.parametrize("place", ["5672", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:amqp"])
def test_an_address_that_is_none_is_named(place: str) -> None:
    assert (
        refused("serve", "--memory", "--listen", place) == f"--listen {place} is not HOST:PORT, such as 127.0.0.1:5672"
    )


def test_an_address_of_another_machine_is_an_error_in_one_sentence() -> None:
    assert refused("serve", "--memory", "--listen", "192.0.2.1:0").startswith("cannot listen on 192.0.2.1:0: ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_closes_clients_with_320_and_the_broker_leaves_in_seconds(tmp_path: Path, number: int) -> None:
    with serving(tmp_path) as broker, open_peer(broker) as first, open_peer(broker) as second, peer_of(broker) as third:
        third.greet()
        broker.process.send_signal(number)
        for peer in (first, second):
            code, text = peer.refused(0)
            assert (code, text) == (320, "CONNECTION_FORCED - broker is shutting down")
        assert third.is_closed()
        assert broker.process.wait(GRACE) == 0


def test_a_client_that_does_not_answer_delays_the_end_by_seconds_only(tmp_path: Path) -> None:
    with serving(tmp_path) as broker, open_peer(broker) as deaf:
        assert broker.stop() == 0
        assert deaf.expect(0, commands.Connection.Close).reply_code == 320


def test_a_broker_leaves_in_seconds_though_publishers_are_held_and_consumers_deaf(tmp_path: Path) -> None:
    with serving(tmp_path) as broker, open_peer(broker) as held, open_peer(broker) as deaf:
        full = held.declare(**{"capacity-messages": 1, "hold-deadline": 0})
        deep = deaf.declare()
        held.say(publish_frames(1, "", full, bytes(100_000)) * 15)
        deaf.say(publish_frames(1, "", deep, bytes(100_000)) * 100)
        deaf.send(1, commands.Basic.Consume(queue=deep))
        eventually(lambda: len(broker.logged("CHN-1005")) == 1, "a publisher is blocked")
        assert broker.stop() == 0
        assert "Traceback" not in broker.log()


def test_a_broker_that_stops_accepts_nobody_new(tmp_path: Path) -> None:
    with serving(tmp_path) as broker, open_peer(broker) as deaf:
        broker.process.terminate()
        assert deaf.expect(0, commands.Connection.Close).reply_code == 320
        with pytest.raises(ConnectionRefusedError):
            Peer(broker)


def test_a_broker_that_stops_writes_no_traceback(tmp_path: Path) -> None:
    with serving(tmp_path) as broker, open_peer(broker) as peer:
        broker.process.terminate()
        assert peer.refused(0)[0] == 320
        assert broker.process.wait(GRACE) == 0
        assert "Traceback" not in broker.log()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[broker]\ncapacity-bites = 5\n", "unknown setting capacity-bites; did you mean capacity-bytes?"),
        ("[broker\n", "is not TOML: "),
        ("[brokers]\n", "line 1: unknown table [brokers]; known are [users], "),
        ("[broker]\ncapacity-bytes = -1\n", "line 2: broker: capacity-bytes=-1 is negative; the least is 0"),
        ("[broker]\nstop-percent = 120\n", "line 2: broker: stop-percent=120 is not a percentage between 0 and 100"),
        (
            "[broker]\nstop-percent = 50\nresume-percent = 60\n",
            "resume-percent=60 (broker, set by file line 3) is above stop-percent=50 (broker, set by file line 2)",
        ),
        ('[broker]\nheartbeat-s = "60"\n', "heartbeat-s must be a number from 0, not '60'"),
        ("[broker]\nframe-max = 100\n", "frame-max must be between 4096 and 2147483647, not 100"),
        ('[broker]\nlisten = "127.0.0.1:1"\n', "listen must be a list of strings"),
        ("[users]\nada = 1815\n", "user 'ada' in [users] must be a password in quotes, or a table"),
    ],
)
def test_a_settings_file_that_cannot_be_meant_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(text)
    sentence = refused("serve", "--listen", "127.0.0.1:0", "--config", str(file))
    assert f"'{file}'" in sentence
    assert said in sentence


@pytest.mark.parametrize(
    "text",
    ["broker = 5\n", "[users]\n[users.ada]\nname = 1\n", "users = 3\n", "\x00", "[broker]\nchannel-max = 1e400\n"],
)
def test_a_settings_file_of_another_shape_is_refused_too(tmp_path: Path, text: str) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(text)
    assert f"'{file}'" in refused("serve", "--listen", "127.0.0.1:0", "--config", str(file))


@pytest.mark.parametrize(
    "text",
    ["[broker]\nchannel-max = 70000\n", "[broker]\nheartbeat-s = 100000\n", "[broker]\nframe-max = 9999999999\n"],
)
def test_a_setting_that_the_protocol_cannot_carry_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(text)
    assert f"'{file}'" in refused("serve", "--listen", "127.0.0.1:0", "--config", str(file))


def test_a_settings_file_that_is_missing_is_named(tmp_path: Path) -> None:
    file = tmp_path / "missing.toml"
    assert (
        refused("serve", "--config", str(file)) == f"cannot read the settings file '{file}': No such file or directory"
    )


def test_a_settings_file_is_obeyed(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(
        '[broker]\ncapacity-bytes = 12345\nhold-deadline-s = 1\nframe-max = 8192\nlisten = ["127.0.0.1:0"]\n'
    )
    words = [sys.executable, "-m", "penstock", "serve", "--config", str(file), "--quiet", "--memory"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        address = process.stdout.readline().split()[1]
        why = penstock_command("status", "--url", address)
        assert why.returncode == 0, why.stderr
        with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as connected:
            connected.sendall(b"AMQP\x00\x00\x09\x01")
            assert connected.recv(1)
    finally:
        process.terminate()
        assert process.wait(GRACE) == 0
        process.stdout.close()


def test_why_and_status_end_in_one_sentence_when_they_cannot_answer(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        assert refused("why", "no-such-queue", "--url", broker.url).startswith("no queue 'no-such-queue' in vhost '/'")
        address = broker.addresses[0]
    assert str(address.rpartition(":")[2]) in refused("status", "--url", address)


async def test_in_one_process_a_broker_starts_and_leaves_without_a_trace() -> None:
    async with in_process() as broker:
        assert re.fullmatch(r"amqp://127\.0\.0\.1:\d+/", broker.url)
        address = broker.addresses[0]
        connected = socket.create_connection(address)
        connected.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_a_log_that_nobody_reads_does_not_stop_the_broker(tmp_path: Path) -> None:
    """Standard error is a pipe that is never read: the broker serves and leaves all the same."""
    words = [sys.executable, "-m", "penstock", "serve", "--listen", "127.0.0.1:0", "--memory"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        port = int(process.stdout.readline().split()[1].rpartition(":")[2])

        for _ in range(900):
            with socket.create_connection(("127.0.0.1", port), GRACE) as connected:
                connected.sendall(b"AMQP\x00\x00\x09\x01\x01\x00\x00\x00\x00\x00\x00\x00")
                received = b""
                while b"FRAME_ERROR" not in received:
                    received += connected.recv(65536)
    finally:
        process.terminate()
        assert process.wait(GRACE) == 0
        process.stdout.close()
        process.stderr.close()
