"""Errors: one tree, and the text that goes over the wire; tests/repo/test_error_codes.py compares their codes."""

from __future__ import annotations

import pickle

from penstock import errors
from penstock.errors import BrokerError, NotFound, PenstockError, ResourceError, StoreError


def test_errors_are_all_of_one_tree() -> None:
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)]
    assert all(issubclass(each, PenstockError) for each in kinds)
    assert {each.__name__ for each in kinds if StoreError in each.__bases__} == {"StoreFull", "StoreBusy", "StoreLost"}


def test_errors_begin_with_the_name_of_their_code_and_fit_a_short_string() -> None:
    assert NotFound("no queue 'a'").reply_text == "NOT_FOUND - no queue 'a'"
    text = NotFound("ä" * 300).reply_text
    assert text.startswith("NOT_FOUND - ää")
    assert 253 < len(text.encode()) <= 255


def test_errors_that_may_be_retried_say_so() -> None:
    assert ResourceError("x").retriable
    assert not NotFound("x").retriable


def test_errors_without_a_kind_are_defects_that_close_the_connection() -> None:
    found = BrokerError("x")
    assert (found.reply, found.closes, found.http_status) == ("INTERNAL_ERROR", "connection", 500)
    assert str(pickle.loads(pickle.dumps(found))) == "x"
