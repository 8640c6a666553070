"""Secrets of a run: absent from logs, answers, files, command lines and dumps."""

import base64
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.brokers import GRACE, BrokerProcess, penstock_command, serving
from tests.support.http_client import Web
from tests.support.raw_client import Peer, peer_of

ADMIN = "s3cret-admin-of-the-test"
WRONG = "s3cret-wrong-of-the-test"
NEW = "s3cret-new-of-the-test"
IMPORTED = "s3cret-imported-of-the-test"
URL = "s3cret-url-of-the-test"
SECRETS = (ADMIN, WRONG, NEW, IMPORTED, URL)

SETTINGS = f"""
[users]
anna = {{ password = "{ADMIN}", tags = ["administrator"] }}
"""

DEFINITIONS = f"""
{{"users": [{{"name": "bob", "password": "{IMPORTED}", "tags": ""}}],
 "parameters": [{{"component": "shovel", "vhost": "/", "name": "s",
   "value": {{"src-uri": "amqp://carl:{URL}@elsewhere", "src-queue": "q", "dest-uri": "amqp://"}}}}]}}
"""
BRIDGES: dict[str, dict[str, object]] = {
    "shovel": {"src-uri": "amqp://", "src-queue": "a", "dest-uri": f"amqp://carl:{URL}@127.0.0.1:1", "dest-queue": "b"},
    "bridge": {"source": "amqp://?queue=a", "target": f"amqp://carl:{URL}@127.0.0.1:1?password={URL}"},
    "federation-upstream": {"uri": [f"amqp://carl:{URL}@127.0.0.1:1"], "queue": "far"},
}
"""Values of parameters of bridges, whose other end is not there."""
MALFORMED = (
    *(f"amqp://carl:{URL}@127.0.0.1:port", f"http://carl:{URL}@127.0.0.1", f"carl:{URL}@127.0.0.1"),
    *(f"amqp://carl:{URL}@other@127.0.0.1", f"amqp://carl:12/{URL}@127.0.0.1", f"amqp://carl:1#{URL}@127.0.0.1"),
    *(f"amqp://carl:{URL}@", f"amqp://carl:{URL}@[::1", f"amqp://carl: {URL}@127.0.0.1", f"amqp://carl:1?{URL}@h"),
)
POLICYMAKER = "a password that is no secret here"
"""Password of user polly, who sees bridges without secrets."""


def forms(secret: str) -> list[bytes]:
    """Return what a secret may look like in a file: plain, in base64 alone and behind its user, in hexadecimal."""
    plain = secret.encode()
    coded = [base64.b64encode(before + plain)[:-4] for before in (b"", b"anna:", b"\0anna\0")]
    return [plain, plain.hex().encode(), *coded]


def exposed(octets: bytes) -> list[str]:
    return [secret for secret in SECRETS if any(form in octets for form in forms(secret))]


def half_logged_in(peer: Peer) -> None:
    """Log in rightly and go on with a half frame: the broker waits for the rest until the login takes too long."""
    peer.greet()
    start_ok = method_frame(0, spec.CONNECTION_START_OK, mechanism="PLAIN", response=f"\0anna\0{ADMIN}".encode())
    peer.say(start_ok + start_ok[:30] + b"x" * 8)


def use_amqp(broker: BrokerProcess) -> None:
    """Log in rightly and wrongly with each mechanism, and with what is malformed."""
    with contextlib.ExitStack() as peers:
        told = []
        for password in (ADMIN, WRONG):
            for mechanism, response in (
                ("PLAIN", f"\0anna\0{password}"),
                ("AMQPLAIN", f"\x05LOGINS\x00\x00\x00\x04anna\x08PASSWORDS\x00\x00\x00{chr(len(password))}{password}"),
                ("PLAIN", f"anna:{password}"),
                (password, "x"),
            ):
                peer = peers.enter_context(peer_of(broker))
                peer.greet()
                start_ok = method_frame(0, spec.CONNECTION_START_OK, mechanism=mechanism, response=response.encode())
                peer.say(start_ok + start_ok[:30] + b"x" * len(start_ok))
                told.append(peer)
        for peer in told:  # Wrong passwords are answered late: all wait at the same time.
            assert peer.is_closed()
    with peer_of(broker) as peer:
        peer.open(user="anna", password=ADMIN)
        peer.say(method_frame(0, spec.CONNECTION_UPDATE_SECRET, new_secret=NEW.encode(), reason="test"))
        peer.say(method_frame(0, spec.CONNECTION_CLOSE, reply_code=200, reply_text="ok"))
        assert peer.is_closed()
    with peer_of(broker) as peer:
        peer.say(b"\0anna\0" + ADMIN.encode())  # No protocol at all.
        assert peer.is_closed()


def use_http(broker: BrokerProcess, admin: Web) -> None:
    """Log in rightly and wrongly, and change users and parameters in each way that there is, rightly and wrongly."""
    assert admin.ask("GET", "/whoami").status == 200
    assert Web(broker.http, "anna", WRONG).ask("GET", "/whoami").status == 401
    for path in ("/users/dora", "/users/%2F/odd"):
        for body in ({"password": NEW, "tags": ""}, {"password": NEW}, {"password_hash": NEW, "tags": 5}):
            admin.ask("PUT", path, body)
    admin.ask("PUT", "/users/eve", b"{" + NEW.encode())
    for path in ("/definitions", "/definitions/%2F"):
        admin.ask("POST", path, DEFINITIONS.encode())
        admin.ask("POST", path, DEFINITIONS.replace('"tags": ""', '"tags": {}').encode())
    admin.ask("PUT", "/parameters/shovel/%2F/s", {"value": {"src-uri": f"amqp://carl:{URL}@elsewhere"}})


def use_bridges(broker: BrokerProcess, admin: Web) -> bytes:
    """Set bridges rightly and wrongly, change them, and look at them; return what their policymaker is told."""
    admin.ask("PUT", "/users/polly", {"password": POLICYMAKER, "tags": "policymaker,monitoring"})
    admin.ask("PUT", "/permissions/%2F/polly", {"configure": ".*", "write": ".*", "read": ".*"})
    polly = Web(broker.http, "polly", POLICYMAKER)
    told = []
    for component, value in BRIDGES.items():
        path, name = (
            f"/parameters/{component}/%2F/one",
            next(key for key in value if key in ("uri", "target", "dest-uri")),
        )
        assert admin.ask("PUT", path, {"value": value}).status == 201
        for bad in MALFORMED:
            for where in (admin, polly):
                answer = where.ask("PUT", path, {"value": {**value, name: bad}})
                assert answer.status == 400, bad
                told.append(answer.body)
        told.append(admin.ask("PUT", path, {"value": {**value, "hat": value}}).body)
        told.append(admin.ask("PUT", path, {"value": value[name]}).body)
        for verb in ("pause", "resume", "restart"):
            answer = polly.ask("POST", f"/penstock/bridges/%2F/one/{verb}?component={component}")
            assert answer.status == 200
            told.append(answer.body)
        told.append(polly.ask("GET", f"/penstock/bridges/%2F/one?component={component}").body)
        told.append(polly.ask("GET", path).body)
    policy = {"pattern": "^a$", "definition": {"federation-upstream": "one"}}
    admin.ask("PUT", "/queues/%2F/a", {"durable": True})
    admin.ask("PUT", "/policies/%2F/p", policy)
    entry = {"component": "bridge", "vhost": "/", "name": "two", "value": {"source": MALFORMED[0], "target": URL}}
    told.append(admin.ask("POST", "/definitions", {"parameters": [entry]}).body)
    told.append(admin.ask("PUT", "/penstock/bridges/%2F/three", {"source": "a", "target": MALFORMED[1]}).body)
    told += [
        polly.ask("GET", path).body
        for path in (
            *("/parameters", "/parameters/shovel", "/penstock/bridges", "/shovels", "/shovels/vhost/%2F/one"),
            *("/federation-links", "/federation-links/state/down", "/penstock/why?queue=a", "/penstock/why"),
            *("/penstock/find?q=one", "/policies", "/overview"),
        )
    ]
    told.append(admin.ask("DELETE", "/shovels/vhost/%2F/one").body)
    return b"\n".join(told)


def run(words: list[str], url: str) -> tuple[int, bytes]:
    """Run a command with the URL in the environment; return its exit code and what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *words],
        env={**os.environ, "PENSTOCK_URL": url, "NEW": NEW},
        capture_output=True,
        timeout=GRACE,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def use_commands(broker: BrokerProcess, tmp_path: Path) -> bytes:
    """Run commands, rightly and wrongly; return what they print."""
    address = broker.url.partition("://")[2].rpartition("@")[2].rstrip("/")
    said = b""
    for words in (["users", "add", "frida", "--password-env", "NEW"], ["users", "list"], ["list", "connections"]):
        code, shown = run(words, f"amqp://anna:{ADMIN}@{address}/")
        assert code == 0, shown
        said += shown
    for url in (f"amqp://anna:{WRONG}@{address}/", f"amqp://anna:{WRONG}@[oops", f"anna:{WRONG}@{address}"):
        code, shown = run(["status"], url)
        assert code != 0, url
        said += shown
    bad = tmp_path / "bad.toml"
    for text in (
        SETTINGS + f'bob = ["{NEW}"]',
        SETTINGS.replace("tags =", "tag ="),
        SETTINGS.replace('", tags', ", tags"),
    ):
        bad.write_text(text)
        done = penstock_command("serve", "--memory", "--config", str(bad), "--listen", "127.0.0.1:0")
        assert done.returncode != 0
        said += (done.stdout + done.stderr).encode()
    return said


@pytest.mark.slow
def test_secrets_are_in_no_log_answer_file_command_line_or_dump(tmp_path: Path) -> None:
    settings, data = tmp_path / "penstock.toml", tmp_path / "data"
    settings.write_text(SETTINGS)
    settings.chmod(0o600)
    options = ("--config", str(settings), "--data", str(data), "--http", "127.0.0.1:0")
    with serving(tmp_path, *options, environment={"PYTHONFAULTHANDLER": "1"}) as broker, peer_of(broker) as slow:
        admin = Web(broker.http, "anna", ADMIN)
        half_logged_in(slow)
        use_amqp(broker)
        use_http(broker, admin)
        said = use_commands(broker, tmp_path) + use_bridges(broker, admin)
        paths = ("/overview", "/users", "/connections", "/nodes", "/definitions", "/penstock/bridges", "/shovels")
        shown = b"".join(admin.ask("GET", path).body for path in paths)
        assert exposed(said) == []
        assert exposed(shown.replace(URL.encode(), b"")) == [], "an export has parameters as they are"
        assert exposed(Path(f"/proc/{broker.process.pid}/cmdline").read_bytes()) == []
        assert slow.is_closed()
        broker.process.send_signal(signal.SIGABRT)
        broker.process.wait(GRACE)
        log = broker.log().encode()
    assert b"Fatal Python error" in log, "a dump was made"
    assert b"login refused" in log
    assert [line for line in log.splitlines() if exposed(line)] == []
    files = [path for path in sorted(data.rglob("*")) if path.is_file()]
    logs = [path for path in files if path.suffix == ".jsonl"]
    assert {path.name.partition("-")[0] for path in logs} == {"audit", "flow"}
    for path in logs:
        assert exposed(path.read_bytes()) == [], path
    for path in set(files) - set(logs):
        assert not set(exposed(path.read_bytes())) - {URL}, f"{path}: only parameters are stored as they are"


@pytest.mark.parametrize("secret", SECRETS)
def test_search_finds_a_secret_in_each_form(secret: str) -> None:
    for form in forms(secret):
        assert exposed(b"before " + form + b" after") == [secret]
