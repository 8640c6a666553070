"""Users and their tags: who may use the operator's operations, and how they are configured."""

from __future__ import annotations

from penstock.management.users import Users


def test_the_first_user_and_guest_are_administrators_and_others_are_not() -> None:
    users = Users({"ada": "a", "bob": "b", "guest": "guest"})
    assert [users.is_administrator(name) for name in ("ada", "bob", "guest", "nobody")] == [True, False, True, False]
    assert Users().is_administrator("guest")


def test_tags_that_are_given_take_the_place_of_those_by_default() -> None:
    users = Users({"ada": "a", "bob": "b", "guest": "g"}, {"ada": [], "bob": ["administrator"], "guest": []})
    assert [users.tags(name) for name in ("ada", "bob", "guest")] == [[], ["administrator"], []]


def test_password_is_right_only_if_all_of_it_is() -> None:
    users = Users({"ada": "love"})
    assert users.refusal("ada", "love", False) == ""
    for wrong in ("", "lov", "lovelace", "LOVE", "\0"):
        assert users.refusal("ada", wrong, False) == "user 'ada' gave a wrong password"
    assert users.refusal("eve", "", True) == "user 'eve' is not known"


def test_access_of_a_user_whose_identity_needs_no_password() -> None:
    users = Users({"ada": "love", "guest": "guest"})
    assert users.access_refusal("ada", False) == users.access_refusal("guest", True) == ""
    assert users.access_refusal("eve", True) == "user 'eve' is not known"
    assert "this machine" in users.access_refusal("guest", False)
    assert (users.password("ada"), users.password("eve")) == ("love", None)
