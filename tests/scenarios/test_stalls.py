"""Repeated attempts of tests that a stall of the machine may spoil."""

from __future__ import annotations

import pytest

from tests.support.stalls import TRIES, undisturbed

NEVER_S = 3600.0


class Attempts:
    """An attempt that fails so many times."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.made = 0

    def __call__(self) -> int:
        self.made += 1
        if self.made <= self.failures:
            pytest.fail("as it was told to")
        return self.made


def test_attempt_that_fails_without_a_stall_counts() -> None:
    attempt = Attempts(1)
    with pytest.raises(pytest.fail.Exception):
        undisturbed(attempt, stall_s=NEVER_S)
    assert attempt.made == 1


def test_attempt_that_fails_in_a_stall_is_made_again() -> None:
    assert undisturbed(Attempts(2), stall_s=0.0) == 3


def test_attempt_that_always_fails_counts_in_the_end() -> None:
    attempt = Attempts(TRIES)
    with pytest.raises(pytest.fail.Exception):
        undisturbed(attempt, stall_s=0.0)
    assert attempt.made == TRIES
