"""Tags include each other as in RabbitMQ."""

from __future__ import annotations

import pytest

from penstock.access.permission import ADMINISTRATOR, MANAGEMENT, MONITORING, POLICYMAKER, TAGS, grants

GRANTED = {
    ADMINISTRATOR: set(TAGS),
    MONITORING: {MONITORING, MANAGEMENT},
    POLICYMAKER: {POLICYMAKER, MANAGEMENT},
    MANAGEMENT: {MANAGEMENT},
    "impersonator": {"impersonator"},
}


@pytest.mark.parametrize("tag", GRANTED)
def test_tag_grants_what_it_includes(tag: str) -> None:
    assert {needed for needed in (*TAGS, "impersonator") if grants([tag], needed)} == GRANTED[tag] | (
        {"impersonator"} if tag == ADMINISTRATOR else set()
    )


def test_one_of_several_tags_is_enough() -> None:
    assert grants(["other", MONITORING], MANAGEMENT)
    assert not grants(["other", MONITORING], POLICYMAKER)


def test_nothing_needs_no_tag() -> None:
    assert grants([], "")
    assert not grants([], MANAGEMENT)
