"""Logins by a back end: requests, cached answers, and the reasons of refusals."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.access.access_table import AccessTable
from penstock.access.back_end import VHOSTS_MOST, BackEnd, BackEndError, ServedUsers
from penstock.access.permission import Permission
from penstock.access.rules import REMEMBERED_MOST, CredentialCheck
from tests.support.clocks import Clock


class Known(BackEnd):
    """A back end that knows anna, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.vhosts: list[str] = []

    def tags_of(self, user: str, password: str) -> list[str]:
        self.asked += 1
        if not user.startswith("anna") or password != "secret":
            raise BackEndError("the back end denies it")
        return ["management"]

    def entered(self, user: str, vhosts: list[str], address: str, tags: list[str]) -> list[str]:
        self.vhosts = vhosts
        return [vhost for vhost in vhosts if vhost != "mars" and address == "10.0.0.1" and tags == ["management"]]


def users(
    cache_s: float = 30.0, vhosts: Sequence[str] = ("/", "mars"), clock: Clock | None = None
) -> tuple[ServedUsers, Known]:
    back_end = Known()
    everything = Permission(".*", ".*", ".*")
    served = ServedUsers(AccessTable(vhosts), back_end, b"k" * 32, everything, cache_s, (clock or Clock()).read)
    return served, back_end


def checked(served: ServedUsers, user: str, password: str, address: str = "10.0.0.1") -> CredentialCheck:
    check = served.check(user, password)
    check.address = address
    if check.is_slow():
        check.verify()
    return check


def test_back_end_is_asked_for_users_that_the_table_does_not_know() -> None:
    served, _ = users()
    assert served.knows("anna")
    assert not served.knows("guest")
    assert not served.knows("")


def test_right_password_gives_the_tags_and_virtual_hosts_of_the_back_end() -> None:
    served, _ = users()
    check = checked(served, "anna", "secret")
    rules = check.rules()
    assert check.refusal() == ""
    assert (rules.tags(), rules.enters("/"), rules.enters("mars")) == (["management"], True, False)


def test_refusal_names_the_user_and_never_the_password() -> None:
    served, back_end = users()
    for _ in range(2):
        check = checked(served, "anna", "hush")
        assert check.refusal() == "user 'anna': the back end denies it"
        assert check.rules() is None
    assert back_end.asked == 2


def test_login_is_remembered_for_its_user_password_address_and_time() -> None:
    clock = Clock()
    served, back_end = users(clock=clock)
    for _ in range(3):
        assert checked(served, "anna", "secret").refusal() == ""
    assert back_end.asked == 1
    assert checked(served, "anna", "hush").refusal() != ""
    assert checked(served, "anna", "secret", "10.0.0.2").refusal() == ""
    assert back_end.asked == 3
    clock.now = 31.0
    assert checked(served, "anna", "secret", "10.0.0.2").refusal() == ""
    assert back_end.asked == 4


def test_login_without_a_cache_asks_the_back_end_each_time() -> None:
    served, back_end = users(cache_s=0)
    for _ in range(3):
        assert checked(served, "anna", "secret").refusal() == ""
    assert back_end.asked == 3


def test_remembered_logins_are_bounded() -> None:
    served, back_end = users()
    for number in range(REMEMBERED_MOST + 1):
        assert checked(served, f"anna{number}", "secret").refusal() == ""
    asked = back_end.asked
    assert checked(served, "anna1", "secret").refusal() == ""
    assert back_end.asked == asked
    assert checked(served, "anna0", "secret").refusal() == ""
    assert back_end.asked == asked + 1


def test_overlong_or_invalid_name_is_refused_without_asking_the_back_end() -> None:
    served, back_end = users()
    for user, password, reason in (
        ("a" * 256, "x", "the name of the user has 256 bytes; the most is 255"),
        ("anna", "x" * 4097, "the password has more than 4096 characters"),
        ("an\0na", "x", "the name of the user has a control character"),
        ("an\ud800na", "x", "a lone surrogate"),
    ):
        assert reason in checked(served, user, password).refusal()
    assert back_end.asked == 0


def test_virtual_hosts_that_are_asked_for_are_bounded() -> None:
    served, back_end = users(vhosts=["/", "mars", *(f"v{number}" for number in range(VHOSTS_MOST))])
    checked(served, "anna", "secret")
    assert back_end.vhosts == ["/", "mars", *(f"v{number}" for number in range(VHOSTS_MOST - 2))]


def test_user_that_is_added_meanwhile_is_the_tables() -> None:
    served, _ = users()
    check = checked(served, "anna", "secret")
    served.table.put_user("anna", None, [])
    assert check.refusal() == "user 'anna' was added while its back end was asked"
