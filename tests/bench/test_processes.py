"""Processes that a measurement starts."""

import socket

from bench.processes import first_port_of_clients, free_port


def test_free_port_is_one_that_no_client_is_given() -> None:
    port = free_port()
    assert 0 < port < first_port_of_clients()
    with socket.create_server(("127.0.0.1", port)):
        assert free_port() != port
