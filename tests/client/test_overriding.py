"""`override` for programs that are run and not checked."""

from __future__ import annotations

from penstock.client.overriding import override


def test_method_is_as_it_was() -> None:
    def method() -> int:
        return 1

    assert override(method) is method
