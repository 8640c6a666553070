"""Contents that refer to a body in pieces."""

from __future__ import annotations

from penstock.core.large_bodies import LargeBodies, Span
from penstock.core.large_content import (
    body_of,
    head_of,
    is_large,
    large_content,
    number_of,
    restored_content,
    with_head,
)
from tests.support.arrived_bodies import arrived


def test_large_content_has_a_body_and_a_head() -> None:
    bodies = LargeBodies()
    whole = arrived(bodies, bytes(1000))
    content = large_content(b"head", whole)
    assert is_large(content)
    assert head_of(content) == b"head"
    assert body_of(content) is whole
    assert number_of(content) == whole.number


def test_small_content_is_the_head() -> None:
    assert not is_large(b"")
    assert not is_large(b"\x02abc")
    assert head_of(b"\x02abc") == b"\x02abc"
    assert body_of(b"\x02abc") is None
    assert restored_content(b"\x02abc", LargeBodies()) == b"\x02abc"


def test_content_with_a_changed_head_refers_to_the_same_body() -> None:
    whole = arrived(LargeBodies(), bytes(1000), spans=[Span(5, 10), Span(20, 30)])
    changed = with_head(large_content(b"head", whole), b"another")
    assert body_of(changed) is whole
    assert head_of(changed) == b"another"


def test_content_from_the_store_has_a_handle_of_the_body() -> None:
    bodies = LargeBodies()
    bodies.stores = True
    content = large_content(b"head", arrived(bodies, bytes(1000), spans=[Span(5, 10), Span(20, 30)]))
    restored = restored_content(bytes(content), bodies)
    found = body_of(restored)
    assert restored == content
    assert found is not None
    assert found.number == number_of(content)
    assert [(span.start, span.octets) for span in found.spans] == [(5, 10), (20, 30)]
    assert (found.octets, found.data_octets()) == (1000, 40)
    assert head_of(restored) == b"head"
