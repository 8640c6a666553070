"""`penstock serve`: its options and its settings file, from the first line to the last."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cluster.adoption import prepare
from penstock.server.freed_memory import SMAPS
from tests.support.brokers import GRACE, eventually, penstock_command, serving, settings_file
from tests.support.commands import refused

ADDRESS = re.compile(r"amqp://127\.0\.0\.1:\d+")


def test_server_listens_on_each_address_of_its_ready_line(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("place", ["5672", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:amqp", "127.0.0.1:\u00b2"])
def test_invalid_address_is_named(place: str) -> None:
    assert (
        refused("serve", "--memory", "--listen", place)
        == f"--listen {place} is not HOST:PORT, such as 127.0.0.1:5672, or unix:PATH"
    )


def test_address_of_another_machine_is_an_error_in_one_sentence() -> None:
    said = refused("serve", "--memory", "--listen", "192.0.2.1:0")
    assert said == f"cannot listen on 192.0.2.1:0: {os.strerror(errno.EADDRNOTAVAIL)}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[broker]\ncapacity-bites = 5\n", "[broker] has no setting 'capacity-bites'; did you mean capacity-bytes?"),
        ("[broker\n", "is not TOML: "),
        ("[brokers]\n", "line 1: unknown table [brokers]; did you mean [broker]?"),
        (
            "[more]\n",
            "line 1: unknown table [more]; known are [users], [oauth], [auth-http], [alarm-hook], [tls], [queue.",
        ),
        (
            "[broker]\ncapacity-bytes = -1\n",
            "line 2: broker: capacity-bytes must be bytes from 0 (such as 64MiB), or none, not",
        ),
        (
            "[broker]\nstop-percent = 120\n",
            "line 2: broker: stop-percent must be a percentage from 0 to 100, or none, not",
        ),
        (
            "[broker]\nstop-percent = 50\nresume-percent = 60\n",
            "resume-percent=60 (broker, set by file line 3) is above stop-percent=50 (broker, set by file line 2)",
        ),
        ('[broker]\nheartbeat-s = "60"\n', "heartbeat-s must be seconds from 0 to 65535 (such as 30s), not '60'"),
        ("[broker]\nframe-max = 100\n", "frame-max must be bytes from 4096 to 2147483647 (such as 64MiB), not 100"),
        ("[broker]\nlisten = 5672\n", "listen must be a string or a list of strings"),
        ("[users]\nada = 1815\n", "user 'ada' in [users] must be a password in quotes, or a table"),
        (
            "[users]\nada = {pasword = 'x'}\n",
            "user 'ada' in [users] has the unknown key pasword; did you mean password?",
        ),
    ],
)
def test_settings_file_that_cannot_be_meant_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(text)
    sentence = refused("serve", "--listen", "127.0.0.1:0", "--config", str(file))
    assert f"'{file}'" in sentence
    assert said in sentence


@pytest.mark.parametrize(
    "text",
    [
        *("broker = 5\n", "[users]\n[users.ada]\nname = 1\n", "users = 3\n", "\x00", "[broker]\nchannel-max = 1e400\n"),
        *(f"[broker]\n{much}\n" for much in ("channel-max = 70000", "heartbeat-s = 100000", "frame-max = 9999999999")),
    ],
)
def test_settings_file_of_wrong_shape_or_beyond_a_frame_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(text)
    assert f"'{file}'" in refused("serve", "--listen", "127.0.0.1:0", "--config", str(file))


def test_data_directory_of_several_shards_is_refused_to_one_broker(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    prepare(tmp_path, 2, ["/"])
    done = penstock_command("serve", "--data", str(tmp_path), "--listen", "127.0.0.1:0", "--http", "off")
    assert done.returncode == 1
    assert f"data directory '{tmp_path}' has 2 shards (1, 2), and one broker would serve" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "messages.sqlite").exists()


def test_data_directory_of_one_shard_is_served_by_one_broker(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    prepare(tmp_path, 1, ["/"])
    with serving(tmp_path, "--data", str(tmp_path)) as broker:
        assert (tmp_path / "messages.sqlite").exists()
        assert broker.alive()


def test_missing_settings_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "missing.toml"
    assert (
        refused("serve", "--config", str(file)) == f"cannot read the settings file '{file}': No such file or directory"
    )


def test_settings_file_is_obeyed(tmp_path: Path) -> None:
    options = settings_file(
        tmp_path, '[broker]\ncapacity-bytes = 12345\nhold-deadline-s = 1\nframe-max = 8192\nlisten = ["127.0.0.1:0"]\n'
    )
    words = [sys.executable, "-m", "penstock", "serve", *options, "--quiet", "--memory"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
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


def test_second_broker_says_that_the_port_of_the_console_is_in_use() -> None:
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):  # Somebody else has it.
            held.enter_context(socket.create_server(("127.0.0.1", 15672)))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        words = [sys.executable, "-m", "penstock", "serve", "--memory", "--quiet", "--listen", f"127.0.0.1:{port}"]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stdout.readline().startswith(f"ready amqp://127.0.0.1:{port} (in memory")
            assert process.stderr.readline() == (
                "no console: cannot serve HTTP on 127.0.0.1:15672: the port is in use; "
                "`--http 127.0.0.1:0` takes a free port\n"
            )
        finally:
            process.terminate()
            process.communicate(timeout=GRACE)
        assert process.returncode == 0


@pytest.mark.skipif(not SMAPS.exists(), reason="the mappings are read from /proc")
def test_idle_broker_has_less_code_mapped_than_its_imports_used(tmp_path: Path) -> None:
    code = (
        "import penstock.server.server; from penstock.server.process_limits import mapped_bytes; print(mapped_bytes(2))"
    )
    imports = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    words = [sys.executable, "-m", "penstock", "serve", "--listen", "127.0.0.1:0", "--memory", "--quiet"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().startswith("ready ")
        pages = Path(f"/proc/{process.pid}/statm")
        eventually(
            lambda: int(pages.read_text().split()[2]) * os.sysconf("SC_PAGE_SIZE") < int(imports.stdout) * 2 / 3,
            "pages that only the start needed are unmapped",
            20,
        )
    finally:
        process.terminate()
        assert process.wait(GRACE) == 0
        process.stdout.close()


def test_unread_log_does_not_stop_the_broker(tmp_path: Path) -> None:
    """Standard error is a pipe that is never read: the broker serves and leaves all the same."""
    words = [sys.executable, "-m", "penstock", "serve", "--listen", "127.0.0.1:0", "--memory"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
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
