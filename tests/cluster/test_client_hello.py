"""Names of servers in the first records of clients."""

from __future__ import annotations

import ssl

import pytest

from penstock.cluster.client_hello import RECORD_OCTETS, record_octets, server_name


def hello(name: str | None, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bytes:
    """Return the first record of a client of OpenSSL."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.maximum_version = version
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_name_of_the_server_is_found_in_a_whole_record(version: ssl.TLSVersion) -> None:
    record = hello("t1.example.com", version)
    assert record_octets(record) == len(record)
    assert server_name(record) == "t1.example.com"


def test_hello_without_a_name_has_none() -> None:
    assert server_name(hello(None)) == ""


def test_length_of_a_record_is_known_step_by_step() -> None:
    record = hello("t1.example.com")
    assert [record_octets(record[:count]) for count in (1, 4, 5, 9)] == [5, 5, len(record), len(record)]


@pytest.mark.parametrize(
    "seen",
    [b"", b"GET /", b"AMQP\x00\x00\x09\x01", b"\x16\x03\x01\x00\x00", b"\x16\x03\x01\xff\xff", b"\x17\x03\x03\x00\x10"],
)
def test_other_input_is_no_handshake(seen: bytes) -> None:
    assert record_octets(seen) == 0
    assert RECORD_OCTETS < 0xFFFF


def test_damaged_hello_has_no_name_and_raises_nothing() -> None:
    record = hello("t1.example.com")
    assert {server_name(record[:count]) for count in range(len(record))} == {""}
    for at in range(5, len(record)):
        for value in (0, 1, 0x7F, 0xFF):
            server_name(record[:at] + bytes([value]) + record[at + 1 :])
    name = record.index(b"t1.example.com")
    assert server_name(record[:name] + b"\xff" + record[name + 1 :]) == ""
    assert server_name(record[: name - 3] + b"\x01" + record[name - 2 :]) == ""
