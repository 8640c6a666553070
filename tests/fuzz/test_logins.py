"""Random logins: no exception, and no login without the password or the key.

PENSTOCK_FUZZ_INPUTS sets the number of logins, PENSTOCK_FUZZ_SEED the seed: 1,000,000 logins before a release.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from scramp import ScramClient

from penstock.access.password_hash import derive_scram_keys, hash_password
from penstock.access.tokens import TokenCheck
from penstock.connections.connection import Connection
from penstock.connections.peer import Peer
from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.amqp10 import spec as spec10
from penstock.wire.amqp10.composite import composite, encode_composite
from penstock.wire.amqp10.frames import SASL_HEADER, frame
from penstock.wire.sasl import plain_response
from tests.support.driven_connection import make_driver, output_of
from tests.support.fuzzed_broker import INPUTS, SEED
from tests.support.tokens import policy, token

TRIED = INPUTS if INPUTS > 100_000 else INPUTS // 6
GREETING = b"AMQP\x00\x00\x09\x01"
WALL = 1_800_000_000.0
MECHANISMS = (b"PLAIN", b"AMQPLAIN", b"EXTERNAL", b"ANONYMOUS", b"SCRAM-SHA-256", b"", b"\xff")
SEEDS = (
    plain_response("ada", "wrong"),
    plain_response("guest", "wrong"),
    b"\x05LOGINS\x00\x00\x00\x03ada\x08PASSWORDS\x00\x00\x00\x05wrong",
    b"n,,n=ada,r=rOprNGfwEbeRWgbNEkqO",
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    b"",
    b"ada",
)


def spoilt(chance: random.Random, data: bytes) -> bytes:
    """Octets with some of them changed, left out or repeated."""
    found = bytearray(data)
    for _ in range(chance.choice((0, 1, 1, 2, 5))):
        at = chance.randrange(len(found) + 1)
        change = chance.randrange(5)
        if change == 0:
            found[at:at] = chance.randbytes(chance.choice((1, 1, 2, 40)))
        elif change == 1:
            del found[at : at + chance.choice((1, 1, 4, 100))]
        elif change == 2 and found:
            found[at % len(found)] = chance.randrange(256)
        elif change == 3:
            found[at:at] = chance.choice((b"\0", b",", b"=", b"\xff", b"\xc3", b".", b"\0" * 300))
        else:
            found += found[at:]
    return bytes(found[:4000])


def tried(driver: BrokerDriver, inputs: list[bytes]) -> Connection:
    """A client that has said all of this."""
    connection = driver.connect(Peer("10.0.0.1:1", False))
    for data in inputs:
        if not connection.is_closed():
            connection.receive(data)
    driver.run_turn()
    connection.take_output()
    return connection


def amqp091(chance: random.Random) -> list[bytes]:
    mechanism, response = chance.choice(MECHANISMS), spoilt(chance, chance.choice(SEEDS))
    said = method_frame(
        0,
        spec.CONNECTION_START_OK,
        client_properties={"capabilities": {"authentication_failure_close": chance.random() < 0.5}},
        mechanism=mechanism.decode("latin-1"),
        response=response,
    )
    said = spoilt(chance, said) if chance.random() < 0.3 else said
    again = method_frame(0, spec.CONNECTION_UPDATE_SECRET, new_secret=response, reason="")
    return [GREETING + said, chance.choice((b"", said, again))]


def amqp10(chance: random.Random) -> list[bytes]:
    said = [SASL_HEADER]
    for _ in range(chance.choice((1, 1, 2, 3))):
        response = spoilt(chance, chance.choice(SEEDS))
        if chance.random() < 0.5:
            mechanism = chance.choice(MECHANISMS).decode("ascii", "ignore")
            performative = composite(spec10.SASL_INIT, mechanism=mechanism, initial_response=response)
        else:
            performative = composite(spec10.SASL_RESPONSE, response=response)
        octets = frame(0, encode_composite(performative), spec10.FRAME_SASL)
        said.append(spoilt(chance, octets) if chance.random() < 0.3 else octets)
    return said


def scram(chance: random.Random, driver: BrokerDriver) -> Connection:
    """A client that knows how SCRAM goes, but not the password."""
    client = ScramClient(["SCRAM-SHA-256"], "ada", "wrong", c_nonce=f"{chance.random()}")
    first = client.get_client_first().encode()
    first = spoilt(chance, first) if chance.random() < 0.3 else first
    init = composite(spec10.SASL_INIT, mechanism="SCRAM-SHA-256", initial_response=first)
    connection = driver.connect(Peer("10.0.0.1:1", False))
    connection.receive(SASL_HEADER + frame(0, encode_composite(init), spec10.FRAME_SASL))
    output = output_of(connection)
    at = output.find(b"r=")
    nonce = output[at + 2 : output.find(b",", at)] if at >= 0 else b"x"
    final = spoilt(chance, b"c=biws,r=%s,p=%s" % (nonce, base64.b64encode(chance.randbytes(32))))
    if not connection.is_closed():
        response = composite(spec10.SASL_RESPONSE, response=final)
        connection.receive(frame(0, encode_composite(response), spec10.FRAME_SASL))
    return connection


@pytest.mark.timeout(0 if INPUTS > 100_000 else 400)
def test_login_without_the_password_fails() -> None:
    chance = random.Random(f"{SEED} logins")
    driver = make_driver()
    driver.broker.access.put_user("ada", hash_password("right", b"sixteen octets.."), [])
    driver.broker.access.set_scram("ada", derive_scram_keys("right", b"sixteen octets.."))
    kinds: tuple[Callable[[random.Random], list[bytes]], ...] = (amqp091, amqp10)
    for number in range(TRIED):
        kind = chance.randrange(8)
        connection = scram(chance, driver) if kind == 7 else tried(driver, kinds[kind % 2](chance))
        assert not connection.logged_in, f"input {number} of seed {SEED}"
        driver.disconnect(connection)
        if number % 50 == 0:
            driver.begin(driver.broker.now + 100)
            driver.run_turn()
            driver.log_queue.take(1_000)
    driver.begin(driver.broker.now + 100)
    driver.run_turn()
    assert driver.connections == {}
    assert driver.services.backoff.waits() == 0
    assert driver.services.logins.count("10.0.0.1") == 0


def value(chance: random.Random) -> Any:
    """Something for a claim or a field of the header."""
    return chance.choice(
        (
            None, True, 0, -1, 1e308, WALL, WALL + 1e6, 2**70, "", "none", "one", "HS256", "RS256", "penstock", [], {},
            ["penstock"], [[[]]], "x" * chance.choice((1, 300)), "\ud800", "penstock.tag:administrator", {"kid": "one"},
        )
    )  # fmt: skip


def rewritten(chance: random.Random, given: str) -> str:
    """A token whose header or claims are others, with the signature of the first."""
    parts = given.split(".")
    at = chance.randrange(2)
    fields = json.loads(base64.urlsafe_b64decode(parts[at] + "=="))
    names = ("alg", "kid", "typ", "jwk", "crit", "b64", "zip", "enc", "aud", "sub", "exp", "nbf", "iat", "scope", "iss")
    for _ in range(chance.choice((1, 2, 4))):
        fields[chance.choice(names)] = value(chance)
    parts[at] = base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")
    return ".".join(parts)


@pytest.mark.timeout(0 if INPUTS > 100_000 else 400)
def test_token_is_accepted_with_the_right_signature_only() -> None:
    chance = random.Random(f"{SEED} tokens")
    driver, accepted = make_driver(), policy()
    driver.broker.wall_offset = WALL
    genuine = token("penstock.read:*/*", sub="anna")
    for number in range(TRIED):
        if chance.random() < 0.5:
            given = rewritten(chance, genuine)
        elif chance.random() < 0.2:
            claims = {name: value(chance) for name in ("exp", "nbf", "iat", "scope", "aud") if chance.random() < 0.5}
            given = (
                token(key_id=chance.choice(("one", "two", None)), **claims) if "\ud800" not in claims.values() else ""
            )
        else:
            given = spoilt(chance, genuine.encode()).decode("latin-1")
        check = TokenCheck(driver.broker.now + driver.broker.wall_offset, accepted, given)
        check.verify()
        rules = check.rules()
        if check.refusal():
            assert rules is None, f"input {number} of seed {SEED}"
        else:
            assert (check.user, rules.tags() if rules else []) in (("anna", []), ("anna", ["administrator"]))
