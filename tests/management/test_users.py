"""Logins of users."""

from __future__ import annotations

from penstock.access.access_table import AccessTable
from penstock.access.password_hash import hash_password, rabbitmq_hash
from penstock.management.users import PasswordCheck, access_refusal
from tests.support.users import table_of


def login_refusal(table: AccessTable, user: str, password: str, loopback: bool) -> str:
    return PasswordCheck(table, user, password, loopback).refusal()


def test_password_is_right_only_if_all_of_it_is() -> None:
    table = table_of({"ada": "love"})
    assert login_refusal(table, "ada", "love", False) == ""
    for wrong in ("", "lov", "lovelace", "LOVE", "\0"):
        assert login_refusal(table, "ada", wrong, False) == "user 'ada' gave a wrong password"
    assert login_refusal(table, "eve", "", True) == "user 'eve' is not known"


def test_a_user_without_a_password_cannot_log_in_with_one() -> None:
    table = AccessTable({"/": None})
    table.put_user("ada", None, [])
    assert login_refusal(table, "ada", "", True) == "user 'ada' has no password"


def test_access_of_a_user_whose_identity_needs_no_password() -> None:
    table = table_of({"ada": "love", "guest": "guest"})
    assert access_refusal(table, "ada", False) == access_refusal(table, "guest", True) == ""
    assert access_refusal(table, "eve", True) == "user 'eve' is not known"
    assert "this machine" in access_refusal(table, "guest", False)


def test_a_slow_hash_is_verified_beside_the_event_loop() -> None:
    table = AccessTable({"/": None})
    table.put_user("ada", hash_password("love", b"sixteen octets.."), [])
    right, wrong = PasswordCheck(table, "ada", "love", True), PasswordCheck(table, "ada", "hate", True)
    assert right.is_slow()
    right.verify()
    wrong.verify()
    assert right.refusal() == ""
    assert wrong.refusal() == "user 'ada' gave a wrong password"


def test_a_password_that_was_changed_meanwhile_is_refused() -> None:
    table = AccessTable({"/": None})
    table.put_user("ada", rabbitmq_hash("love", b"salt"), [])
    check = PasswordCheck(table, "ada", "love", True)
    check.verify()
    table.set_password("ada", rabbitmq_hash("hate", b"salt"))
    assert check.refusal() == "user 'ada' got another password meanwhile"
