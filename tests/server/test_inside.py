"""Sockets inside a node: names, users of processes, keys, and the target of a request."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from penstock.errors import StartError
from penstock.server.inside import Ask, address_of, is_key, is_of_this_user, listening_at
from tests.support.inside_node import new_name


def test_name_is_reached_without_a_file_and_is_free_after_its_process() -> None:
    name = new_name()
    with listening_at(name) as listening, socket.socket(socket.AF_UNIX) as client:
        client.connect(address_of(name))
        accepted, _ = listening.accept()
        with accepted:
            assert is_of_this_user(accepted)
            assert is_of_this_user(client)
        with pytest.raises(StartError, match=f"cannot listen inside the node at '{name}': Address already in use"):
            listening_at(name)
    listening_at(name).close()


def test_path_is_an_address_too(tmp_path: Path) -> None:
    with listening_at(str(tmp_path / "sock")):
        assert (tmp_path / "sock").is_socket()


def test_socket_without_a_peer_belongs_to_no_user() -> None:
    with socket.socket(socket.AF_INET) as other:
        assert not is_of_this_user(other)


def test_key_is_compared_as_a_whole() -> None:
    assert is_key("abc", "abc")
    assert not is_key("ab", "abc")
    assert not is_key("", "abc")
    assert not is_key("\ud800", "abc")


def test_target_has_what_differs_from_a_request_of_the_control_exchange() -> None:
    assert Ask("user.list", {}, "/").target() == "/penstock/ask?operation=user.list&vhost=%2F"
    whole = Ask("GET /queues", {}, "", tag="", audited=False, detached=True).target()
    assert whole == "/penstock/ask?operation=GET+%2Fqueues&vhost=&tag=&audited=false&job=true"
