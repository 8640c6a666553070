"""Password checks: fast after the first login, equally slow for all refusals, with upgrades of old hashes."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from penstock.access.access_table import AccessTable
from penstock.access.password_hash import (
    MD5,
    SCRYPT,
    SHA256,
    SHA512,
    PasswordHash,
    derive_scram_keys,
    file_password,
    hash_password,
    rabbitmq_hash,
)
from penstock.access.passwords import REMEMBERED_S, PasswordCheck, Passwords
from penstock.access.rules import REMEMBERED_MOST
from penstock.access.user import FILE, User
from tests.support.clocks import Clock

LOVELACE = hash_password("lovelace", b"s" * 16)


def make(*users: User, clock: Clock | None = None) -> Passwords:
    table = AccessTable({"/"})
    table.set_file_users(users)
    table.put_user("ada", LOVELACE, [])
    return Passwords(table, b"secret", (clock or Clock()).read)


def refusal(passwords: Passwords, user: str, password: str, loopback: bool = True) -> str:
    check = passwords.check(user, password, loopback)
    if check.is_slow():
        check.verify()
    return check.refusal()


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The passwords of which a slow hash was computed."""
    found: list[bytes] = []
    scrypt = hashlib.scrypt

    def noted(password: bytes, **parameters: Any) -> bytes:
        found.append(password)
        return scrypt(password, **parameters)

    monkeypatch.setattr(hashlib, "scrypt", noted)
    return found


@pytest.fixture
def passwords() -> Passwords:
    return make()


def test_password_is_right_or_wrong_and_a_user_known_or_not(passwords: Passwords) -> None:
    assert refusal(passwords, "ada", "lovelace") == ""
    assert refusal(passwords, "ada", "guess") == "user 'ada' gave a wrong password"
    assert refusal(passwords, "eve", "guess") == "user 'eve' is not known"
    assert len(refusal(passwords, "e" * 48_000, "guess")) < 300, "it goes to the log"
    passwords.table.put_user("nopass", None, [])
    assert refusal(passwords, "nopass", "") == "user 'nopass' has no password"


def test_empty_password_is_wrong_even_if_its_hash_was_imported(passwords: Passwords) -> None:
    passwords.table.put_user("bob", PasswordHash(SHA256, b"salt", rabbitmq_hash("x", b"salt").digest), [])
    assert refusal(passwords, "bob", "") == "user 'bob' gave a wrong password"


def test_guest_comes_from_this_machine_only() -> None:
    passwords = make(User("guest", file_password("guest"), (), FILE))
    assert refusal(passwords, "guest", "guest") == ""
    assert "this machine" in refusal(passwords, "guest", "guest", loopback=False)


def test_users_of_the_file_are_compared_at_once_while_no_user_has_a_hash() -> None:
    table = AccessTable({"/"})
    table.set_file_users([User("bob", file_password("b"), (), FILE)])
    passwords = Passwords(table, b"secret", Clock().read)
    assert not passwords.check("bob", "b", True).is_slow()
    assert not passwords.check("bob", "guess", True).is_slow()
    assert not passwords.check("eve", "guess", True).is_slow()
    table.put_user("ada", LOVELACE, [])
    assert not passwords.check("bob", "b", True).is_slow()
    assert passwords.check("bob", "guess", True).is_slow()
    assert passwords.check("eve", "guess", True).is_slow()
    table.delete_user("ada")
    assert not passwords.check("eve", "guess", True).is_slow()


@pytest.mark.parametrize("user", ["ada", "bob", "carl", "nopass", "eve", "ghost"])
def test_refused_login_costs_one_slow_hash(user: str, hashed: list[bytes]) -> None:
    passwords = make(User("bob", file_password("b"), (), FILE))
    passwords.table.put_user("carl", rabbitmq_hash("c", b"salt"), [])
    passwords.table.put_user("nopass", None, [])
    refusal(passwords, user, "guess")
    assert hashed == [b"guess"]


def test_verified_password_is_known_for_a_time_and_no_other(hashed: list[bytes]) -> None:
    clock = Clock()
    passwords = make(clock=clock)
    assert refusal(passwords, "ada", "lovelace") == refusal(passwords, "ada", "lovelace") == ""
    assert hashed == [b"lovelace"]
    assert refusal(passwords, "ada", "guess") != ""
    assert hashed == [b"lovelace", b"guess"]
    clock.now = REMEMBERED_S + 1
    assert passwords.check("ada", "lovelace", True).is_slow()


def test_verified_password_is_forgotten_when_it_is_changed(passwords: Passwords) -> None:
    assert refusal(passwords, "ada", "lovelace") == ""
    passwords.table.set_password("ada", hash_password("byron", b"t" * 16))
    assert refusal(passwords, "ada", "lovelace") == "user 'ada' gave a wrong password"
    assert refusal(passwords, "ada", "byron") == ""


def test_password_that_changes_while_it_is_verified_is_refused(passwords: Passwords) -> None:
    check = passwords.check("ada", "lovelace", True)
    check.verify()
    passwords.table.set_password("ada", hash_password("byron", b"t" * 16))
    assert "another password" in check.refusal()
    check = passwords.check("ada", "byron", True)
    check.verify()
    passwords.table.delete_user("ada")
    assert check.refusal() == "user 'ada' is not known"


def test_logins_verified_while_the_password_is_hashed_again_are_allowed(hashed: list[bytes]) -> None:
    passwords = make()
    imported = rabbitmq_hash("c", b"salt")
    passwords.table.put_user("carl", imported, [])
    checks = [passwords.check("carl", password, True) for password in ("c", "c", "guess")]
    for check in checks:
        check.verify()
    assert [check.refusal() for check in checks] == ["", "", "user 'carl' gave a wrong password"]
    carl = passwords.table.user("carl")
    assert carl.password_hash.algorithm == SCRYPT
    assert carl.former == imported.fingerprint(), "the second login has not replaced the hash again"
    assert carl.scram is not None
    assert not passwords.check("carl", "c", True).is_slow(), "it is remembered by its new hash"
    late = passwords.check("carl", "d", True)
    late.verify()
    passwords.table.set_password("carl", hash_password("d", b"t" * 16))
    assert "another password" in late.refusal()


def test_remembered_passwords_are_bounded(passwords: Passwords) -> None:
    for number in range(REMEMBERED_MOST + 1):
        passwords.remember(f"user{number}", LOVELACE, "x")
    assert not passwords.is_known("user0", LOVELACE, "x")
    assert passwords.is_known("user1", LOVELACE, "x")
    assert not passwords.is_known("user1", LOVELACE, "y")


@pytest.mark.parametrize("algorithm", [SHA256, SHA512, MD5])
def test_hash_of_rabbitmq_is_replaced_at_the_next_login_with_keys_for_scram(algorithm: str) -> None:
    passwords = make()
    passwords.table.put_user("bob", rabbitmq_hash("b", b"salt", algorithm), ["monitoring"])
    assert refusal(passwords, "bob", "wrong") != ""
    bob = passwords.table.user("bob")
    assert (bob.password_hash.algorithm, bob.scram) == (algorithm, None)
    assert refusal(passwords, "bob", "b") == ""
    bob = passwords.table.user("bob")
    assert (bob.password_hash.algorithm, bob.tags) == (SCRYPT, ["monitoring"])
    assert bob.scram == derive_scram_keys("b", bob.scram[0])
    assert not passwords.check("bob", "b", True).is_slow()
    assert refusal(passwords, "bob", "b") == ""
    assert passwords.table.user("bob").password_hash == bob.password_hash, "it is hashed anew once"


def test_salts_differ(passwords: Passwords) -> None:
    assert passwords.make_salt(16) != passwords.make_salt(16)


def test_hash_of_the_settings_file_stays_and_gets_keys_for_scram() -> None:
    passwords = make(User("bob", rabbitmq_hash("b", b"salt"), (), FILE))
    assert refusal(passwords, "bob", "b") == ""
    bob = passwords.table.user("bob")
    assert bob.password_hash == rabbitmq_hash("b", b"salt")
    assert bob.scram is not None
    check = passwords.check("bob", "b", True)
    assert isinstance(check, PasswordCheck)
    assert not check.is_slow()
