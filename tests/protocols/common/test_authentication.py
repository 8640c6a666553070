"""Verifications that are run at once: for pure tests and the simulation."""

from __future__ import annotations

from penstock.protocols.common.authentication import InlineAuthenticator, Verification


class Noted(Verification):
    def __init__(self, calls: list[str]) -> None:
        super().__init__("10.0.0.1")
        self.calls = calls

    def run(self) -> None:
        self.calls.append("run")

    def conclude(self) -> None:
        self.calls.append("conclude")


class Leaving(Noted):
    def run(self) -> None:
        super().run()
        self.cancelled = True


def test_a_verification_is_run_and_concluded_at_once() -> None:
    calls: list[str] = []
    InlineAuthenticator().start(Noted(calls))
    assert calls == ["run", "conclude"]


def test_one_that_nobody_waits_for_is_not_concluded() -> None:
    calls: list[str] = []
    InlineAuthenticator().start(Leaving(calls))
    assert calls == ["run"]
    noted = Noted(calls)
    InlineAuthenticator().cancel(noted)
    assert noted.cancelled
