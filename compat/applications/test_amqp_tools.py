"""librabbitmq by Debian's amqp-tools: what shell scripts do with it."""

from __future__ import annotations

import shutil
import subprocess

import pytest

pytestmark = pytest.mark.skipif(shutil.which("amqp-publish") is None, reason="amqp-tools is not installed")


def tool(url: str, name: str, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run one of the tools to its end."""
    command = [f"amqp-{name}", "-u", url, *words]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=30, check=False)


def declared(url: str, name: str) -> None:
    done = tool(url, "declare-queue", "-q", name)
    assert (done.returncode, done.stdout.strip()) == (0, name), done.stderr


def test_declare_publish_get_and_delete(url: str, name: str) -> None:
    declared(url, name)
    assert tool(url, "publish", "-r", name, "-b", "hello", "-C", "text/plain").returncode == 0
    got = tool(url, "get", "-q", name)
    assert (got.returncode, got.stdout) == (0, "hello")
    assert tool(url, "get", "-q", name).returncode == 2  # nothing is there
    assert tool(url, "delete-queue", "-q", name).returncode == 0


def test_the_body_comes_from_standard_input(url: str, name: str) -> None:
    declared(url, name)
    assert tool(url, "publish", "-r", name, given="line 1\nline 2\n").returncode == 0
    assert tool(url, "get", "-q", name).stdout == "line 1\nline 2\n"
    tool(url, "delete-queue", "-q", name)


def test_lines_are_messages(url: str, name: str) -> None:
    declared(url, name)
    lines = [f"line {number}\n" for number in range(200)]
    assert tool(url, "publish", "-r", name, "-l", given="".join(lines)).returncode == 0
    got = tool(url, "consume", "-q", name, "-c", "200", "-p", "10", "cat")
    assert (got.returncode, got.stdout) == (0, "".join(lines))
    assert tool(url, "delete-queue", "-q", name).stdout.strip() in ("0", "")


def test_consume_binds_a_queue_of_its_own(url: str, name: str) -> None:
    consumer = subprocess.Popen(
        ["amqp-consume", "-u", url, "-e", "amq.direct", "-r", name, "-c", "1", "cat"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert consumer.stderr is not None
    assert "queue name: amq.gen" in consumer.stderr.readline()  # it is declared; soon it will be bound
    while consumer.poll() is None:
        assert tool(url, "publish", "-e", "amq.direct", "-r", name, "-b", "hello").returncode == 0
    said, _ = consumer.communicate(timeout=30)
    assert said == "hello"


def test_a_persistent_message_and_a_reply_queue_are_accepted(url: str, name: str) -> None:
    declared(url, name)
    assert tool(url, "publish", "-r", name, "-p", "-t", "answers", "-b", "x").returncode == 0
    assert tool(url, "get", "-q", name).stdout == "x"
    tool(url, "delete-queue", "-q", name)


def test_a_durable_queue_is_declared(url: str, name: str) -> None:
    assert tool(url, "declare-queue", "-d", "-q", name).returncode == 0
    again = tool(url, "declare-queue", "-q", name)
    assert again.returncode == 1
    assert "406" in again.stderr
    tool(url, "delete-queue", "-q", name)


def test_a_missing_queue_is_said(url: str, name: str) -> None:
    done = tool(url, "get", "-q", name)
    assert done.returncode == 1
    assert "404" in done.stderr


def test_a_wrong_password_is_said(url: str) -> None:
    done = tool(url.replace("guest:guest", "guest:wrong"), "declare-queue", "-q", "x")
    assert done.returncode == 1
    assert "403" in done.stderr or "ACCESS_REFUSED" in done.stderr
