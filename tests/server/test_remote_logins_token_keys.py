"""Keys of tokens: from files and URLs, cached, and bounded."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from penstock.access.tokens import TokenError, TokenKey
from penstock.server import remote_logins
from penstock.server.remote_logins import APART_S, FRESH_S, OCTETS_MOST, STALE_S, FetchedKeys, parse_keys
from tests.support.brokers import PATIENCE
from tests.support.tokens import ec_key, jwk, pem, rsa_key


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": list(keys)}).encode()


class Provider(http.server.ThreadingHTTPServer):
    """An identity provider that tells its keys."""

    answer = b""
    status = 200
    asked = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.came = threading.Semaphore(0)
        """Requests after the first."""
        self.may_answer = threading.Event()
        self.may_answer.set()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Provider)
        self.server.asked += 1
        if self.server.asked > 1:
            self.server.came.release()
        assert self.server.may_answer.wait(PATIENCE)
        self.send_response(self.server.status)
        self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(self.server.answer)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def provider() -> Iterator[Provider]:
    found = Provider()
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    found.may_answer.set()
    found.shutdown()
    thread.join()
    found.server_close()


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def keys_of(provider: Provider) -> tuple[FetchedKeys, Clock]:
    clock = Clock()
    return FetchedKeys(f"http://127.0.0.1:{provider.server_port}/keys", clock), clock


def test_keys_are_fetched_once_for_a_time(provider: Provider) -> None:
    provider.answer = key_set(jwk(rsa_key(), "one"))
    keys, clock = keys_of(provider)
    assert keys.find("one").algorithms == ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]
    clock.now += FRESH_S - 1
    keys.find("one")
    assert provider.asked == 1
    clock.now += 1
    keys.find("one")
    assert provider.came.acquire(timeout=PATIENCE), "it is asked again, while the old keys serve"


def test_key_that_is_new_is_found_but_strangers_cannot_make_the_broker_ask_at_will(provider: Provider) -> None:
    provider.answer = key_set(jwk(rsa_key(), "one"))
    keys, clock = keys_of(provider)
    keys.find("one")
    for _ in range(100):
        with pytest.raises(TokenError, match=r"token names 'two', and 'http://.*' has 1 others"):
            keys.find("two")
    assert provider.asked == 1
    provider.answer = key_set(jwk(rsa_key("two"), "two"))
    clock.now += APART_S
    keys.find("two")
    assert provider.asked == 2


def test_old_keys_stay_while_the_provider_is_away_but_not_for_ever(provider: Provider) -> None:
    provider.answer = key_set(jwk(rsa_key(), "one"))
    keys, clock = keys_of(provider)
    keys.find("one")
    provider.status = 500
    clock.now += FRESH_S
    keys.find("one")
    clock.now += STALE_S
    with pytest.raises(TokenError, match=r"cannot be had from 'http://127\.0\.0\.1.*500"):
        keys.find("one")


def in_thread(keys: FetchedKeys, key_id: str) -> Future[TokenKey]:
    future: Future[TokenKey] = Future()

    def find() -> None:
        try:
            future.set_result(keys.find(key_id))
        except TokenError as error:
            future.set_exception(error)

    threading.Thread(target=find, daemon=True).start()
    return future


def test_old_keys_serve_while_the_provider_is_slow(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_logins, "FETCH_S", 3_600.0)
    provider.answer = key_set(jwk(rsa_key(), "one"))
    keys, clock = keys_of(provider)
    first = keys.find("one")
    provider.may_answer.clear()
    clock.now += FRESH_S
    assert in_thread(keys, "one").result(PATIENCE) is first
    assert provider.came.acquire(timeout=PATIENCE)
    clock.now += FRESH_S
    assert in_thread(keys, "one").result(PATIENCE) is first
    assert provider.asked == 2, "one fetch at a time"


def test_unknown_keys_stop_no_known_ones(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_logins, "FETCH_S", 3_600.0)
    monkeypatch.setattr(remote_logins, "WAIT_S", 3_600.0)
    provider.answer = key_set(jwk(rsa_key(), "one"))
    keys, clock = keys_of(provider)
    first = keys.find("one")
    provider.may_answer.clear()
    clock.now += APART_S
    waits = in_thread(keys, "two")
    assert provider.came.acquire(timeout=PATIENCE)
    for _ in range(3):
        with pytest.raises(TokenError, match=r"names 'two', .* has 1 others; they are being fetched again"):
            in_thread(keys, "two").result(PATIENCE)
    assert in_thread(keys, "one").result(PATIENCE) is first
    assert not waits.done()
    provider.answer = key_set(jwk(rsa_key(), "one"), jwk(rsa_key("two"), "two"))
    provider.may_answer.set()
    assert waits.result(PATIENCE).algorithms == first.algorithms


def test_query_of_the_source_is_not_shown(provider: Provider) -> None:
    clock = Clock()
    keys = FetchedKeys(f"http://127.0.0.1:{provider.server_port}/keys?token=secret", clock)
    for answer, reason in ((b"nonsense", "neither JSON"), (key_set(jwk(rsa_key(), "one")), "has 1 others")):
        provider.answer = answer
        with pytest.raises(TokenError, match=rf"/keys'.*{reason}") as refused:
            keys.find("two")
        assert "secret" not in str(refused.value)
        clock.now += APART_S


@pytest.mark.parametrize(
    ("status", "answer", "reason"),
    [
        (302, b"", "302"),
        (200, b"nonsense", "neither JSON nor PEM"),
        (200, b"[" * 100_000, "neither JSON nor PEM"),
        (200, b"[]", "no set of keys"),
        (200, b'{"keys": []}', "no key for signatures"),
        (200, b"x" * (OCTETS_MOST + 1), "more than"),
    ],
)
def test_answers_without_keys_are_refused(provider: Provider, status: int, answer: bytes, reason: str) -> None:
    provider.status, provider.answer = status, answer
    keys, _ = keys_of(provider)
    with pytest.raises(TokenError, match=reason):
        keys.find("one")
    assert provider.asked == 1, "a redirect is not followed"


def test_keys_come_from_a_file_in_either_form(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_bytes(pem(rsa_key()))
    assert FetchedKeys(str(file)).find("whatever").algorithms[0] == "RS256"
    file.write_bytes(pem(ec_key()))
    assert FetchedKeys(str(file)).find("").algorithms[0] == "ES256"
    file.write_bytes(key_set(jwk(rsa_key(), "one")))
    assert FetchedKeys(str(file)).find("").algorithms, "the only key needs no name"
    with pytest.raises(TokenError, match="No such file"):
        FetchedKeys(str(tmp_path / "none")).find("one")
    file.write_text("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")
    with pytest.raises(TokenError, match="no public key in PEM"):
        FetchedKeys(str(file)).find("one")


def test_keys_that_are_not_for_signatures_are_left_out() -> None:
    given = [
        jwk(rsa_key(), "one", alg="RS512"),
        jwk(rsa_key(), "encrypts", use="enc"),
        jwk(rsa_key(), "odd", alg="ES256"),
        {"kty": "RSA", "kid": "broken", "n": "", "e": ""},
        {"kty": []},
        7,
        {"kty": "oct", "kid": "shared", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA"},
    ]
    found = parse_keys(json.dumps({"keys": given}).encode())
    assert {name: key.algorithms for name, key in found.items()} == {
        "one": ["RS512"],
        "shared": ["HS256", "HS384", "HS512"],
    }
