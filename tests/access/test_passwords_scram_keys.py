"""SCRAM keys: derived once for a user, and fake for unknown users."""

from __future__ import annotations

import hashlib
import hmac

from penstock.access.password_hash import ITERATIONS, rabbitmq_hash
from penstock.access.passwords import DERIVE_WORK, ScramKeyCache
from penstock.flow.work import WorkMeter
from tests.support.users import table_of


def make(passwords: dict[str, str], secret: bytes = b"secret") -> tuple[ScramKeyCache, WorkMeter]:
    work = WorkMeter()
    return ScramKeyCache(table_of(passwords), secret, work), work


def test_keys_of_a_user_are_those_of_rfc_5802() -> None:
    keys, _ = make({"ada": "love\N{LATIN SMALL LIGATURE FI}"})
    salt, stored, server, iterations = keys.of("ada")
    assert len(salt) == 16
    assert iterations == ITERATIONS >= 4096
    salted = hashlib.pbkdf2_hmac("sha256", b"lovefi", salt, iterations)
    assert stored == hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    assert server == hmac.digest(salted, b"Server Key", "sha256")


def test_keys_are_derived_once_and_the_derivation_counts_as_work() -> None:
    keys, work = make({"ada": "love", "bob": "b"})
    first = keys.of("ada")
    assert work.done == DERIVE_WORK
    assert keys.of("ada") == first
    assert work.done == DERIVE_WORK
    keys.of("bob")
    assert work.done == 2 * DERIVE_WORK


def test_scram_keys_of_an_unknown_user_are_stable_and_look_genuine() -> None:
    keys, work = make({"ada": "love"})
    unknown = keys.of("eve")
    assert keys.of("eve") == unknown
    assert make({"ada": "love"})[0].of("eve") == unknown
    assert [len(part) for part in unknown[:3]] == [len(part) for part in keys.of("ada")[:3]]
    assert unknown[3] == keys.of("ada")[3]
    assert unknown != keys.of("mallory")
    assert work.done == DERIVE_WORK


def test_salt_depends_on_the_secret_and_hides_whether_the_user_exists() -> None:
    known, unknown = make({"ada": "love"})[0], make({})[0]
    assert known.of("ada")[0] == unknown.of("ada")[0]
    assert make({"ada": "love"}, b"other")[0].of("ada")[0] != known.of("ada")[0]


def test_password_that_scram_cannot_carry_matches_nothing() -> None:
    keys, work = make({"ada": "a\x07b"})
    assert keys.of("ada") == make({})[0].of("ada")
    assert keys.of("ada") == keys.of("ada")
    assert work.done == DERIVE_WORK


def test_keys_of_a_hash_are_those_that_were_derived_from_its_password() -> None:
    keys, work = make({})
    table = keys._table
    table.put_user("ada", rabbitmq_hash("love", b"salt"), [])
    assert keys.of("ada") == make({})[0].of("ada"), "nothing matches before its first login"
    table.set_scram("ada", (b"salt", b"stored", b"server", 4096))
    assert keys.of("ada") == (b"salt", b"stored", b"server", 4096)
    assert work.done == 0
