"""Users."""

from __future__ import annotations

from penstock.access.permission import Permission, TopicPermission
from penstock.access.user import User


def test_tag_administrator_makes_an_administrator() -> None:
    assert User("anna", tags=["administrator"]).is_administrator()
    assert not User("anna", tags=["management"]).is_administrator()


def test_octets_count_names_tags_and_expressions() -> None:
    user = User("anna", tags=["management"])
    assert user.octets() == 14
    user.permissions["/"] = Permission("c", "ww", "rrr")
    user.topic_permissions["/"] = {"amq.topic": TopicPermission("ww", "rrr")}
    assert user.octets() == 14 + 7 + 1 + 9 + 5
