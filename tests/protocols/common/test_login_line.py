"""The line of passwords that wait for a thread: networks take turns, and nobody keeps a place who is gone."""

from __future__ import annotations

from penstock.protocols.common.authentication import Verification
from penstock.protocols.common.login_line import LINE_MOST, NETWORK_MOST, LoginLine


def waiting(line: LoginLine, network: str, user: str = "ada") -> Verification:
    verification = Verification(network)
    verification.subject = user
    assert line.add(verification)
    return verification


def test_networks_take_turns_and_each_is_served_in_order() -> None:
    line = LoginLine()
    many = [waiting(line, "a") for _ in range(3)]
    one, other = waiting(line, "b"), waiting(line, "c")
    assert [line.next() for _ in range(6)] == [many[0], one, other, many[1], many[2], None]
    assert len(line) == 0


def test_who_guesses_at_one_user_delays_no_other_one() -> None:
    line = LoginLine()
    guesses = [waiting(line, "a") for _ in range(3)]
    bob = waiting(line, "a", "bob")
    elsewhere = waiting(line, "b")
    assert [line.next() for _ in range(5)] == [guesses[0], elsewhere, bob, guesses[1], guesses[2]]


def test_who_is_gone_leaves_no_place_behind() -> None:
    line = LoginLine()
    first, second = waiting(line, "a"), waiting(line, "a")
    line.remove(first)
    line.remove(first)
    assert len(line) == 1
    assert line.next() is second
    line.remove(second)
    assert len(line) == 0


def test_a_network_and_the_whole_line_are_bounded() -> None:
    line = LoginLine()
    for _ in range(NETWORK_MOST):
        waiting(line, "a")
    assert not line.add(Verification("a"))
    number = 0
    while len(line) < LINE_MOST:
        number += 1
        waiting(line, f"b{number}")
    assert not line.add(Verification("c"))
    line.next()
    assert line.add(Verification("c"))
