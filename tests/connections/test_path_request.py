"""Requests by method and path: their segments and queries, percent-decoded."""

from __future__ import annotations

import pytest

from penstock.connections.path_request import PathAnswer, PathRequest, pairs
from penstock.errors import InvalidField


def test_path_is_decoded_segment_by_segment() -> None:
    assert PathRequest("GET", "/queues/a%20b%2Fc?x=1", None).segments() == ["queues", "a b/c"]
    assert PathRequest("GET", "", None).segments() == []
    with pytest.raises(InvalidField, match="'%FF', percent-decoded, is not UTF-8"):
        PathRequest("GET", "/queues/%FF", None).segments()


def test_query_with_a_plus_is_read_in_both_ways() -> None:
    assert PathRequest("GET", "/a?src=a%20b&key=%3D", None).queries() == [{"src": "a b", "key": "="}]
    assert PathRequest("GET", "/a?src=a+b", None).queries() == [{"src": "a b"}, {"src": "a+b"}]
    assert PathRequest("GET", "/a", None).queries() == [{}]


def test_last_segment_has_fields_with_encoded_semicolons() -> None:
    request = PathRequest("DELETE", "/bindings/src=a%3Bb;dstq=q;key=;args=", None)
    assert request.last_fields() == {"src": "a;b", "dstq": "q", "key": "", "args": ""}


@pytest.mark.parametrize("text", ["a", "=1&b", "a=%FF"])
def test_query_without_pairs_is_refused(text: str) -> None:
    with pytest.raises(InvalidField):
        pairs(text, "&")


def test_answer_has_no_kinds_and_no_change_unless_given() -> None:
    answer = PathAnswer(204)
    assert (answer.status, answer.body, answer.kinds, answer.changed) == (204, None, {}, False)
