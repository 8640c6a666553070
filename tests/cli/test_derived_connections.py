"""`penstock connection close`, against a broker on a real port."""

from __future__ import annotations

from tests.support.brokers import BrokerProcess
from tests.support.commands import listed, run, told
from tests.support.raw_client import open_peer


def test_connection_is_closed_by_its_number_with_a_reason(own_broker: BrokerProcess) -> None:
    with open_peer(own_broker) as first, open_peer(own_broker) as second:
        one, two = [each["penstock"]["name"] for each in listed(own_broker, "connections")]
        number = one.partition("(")[0]
        said = run(own_broker, "connection", "close", number, "--reason", "maintenance")
        assert said == f"connection {one} is closed\n"
        assert first.refused(0) == (320, "CONNECTION_FORCED - maintenance")
        assert second.is_well()
        assert told(own_broker, "connection", "close", two) == {"closed": two}
        assert second.refused(0) == (320, "CONNECTION_FORCED - closed by an operator")
    assert f"no connection '{number}'" in run(own_broker, "connection", "close", number, code=1)
    said = run(own_broker, "connection", "close", number, "--if-exists")
    assert said == f"connection {number} does not exist\n"
