"""Resources of the node against their limits."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from penstock.driver.driver import BrokerDriver
from penstock.flow.level import UNLIMITED, Level, Thresholds
from penstock.management.alarms import FORECAST_MEMORY
from penstock.management.node import Certificates
from penstock.management.process_facts import ProcessSample
from tests.support.driven_connection import Dialogue
from tests.support.operation_calls import ask

DAY_S = 86_400.0
GIB = 1 << 30
MEMORY = Thresholds(Level(UNLIMITED, 10 * GIB), Level(UNLIMITED, 8 * GIB), Level(UNLIMITED, 7 * GIB))


class TwoCertificates(Certificates):
    """A certificate that has ended, and one of many years."""

    @override
    def ends(self) -> list[tuple[str, str, float]]:
        return [("old.pem", "", -DAY_S), ("new.pem", "web", 9000 * DAY_S)]


def asked(driver: BrokerDriver) -> Any:
    return ask(driver, "GET /penstock/resources", {})


def by_name(driver: BrokerDriver) -> dict[str, Any]:
    return {row["name"]: row for row in asked(driver)["resources"]}


def test_resources_without_a_store_have_no_disk(driver: BrokerDriver) -> None:
    found = asked(driver)
    assert found["store"] == {"kept": False, "used": 0, "unwritten": 0, "fails": None}
    assert "disk" not in by_name(driver)


def test_connections_and_files_have_their_limits(driver: BrokerDriver) -> None:
    Dialogue(driver)
    driver.process.last = ProcessSample(95, 100, 5 << 20, 1 << 30, 4, 2)
    found = by_name(driver)
    assert (found["connections"]["used"], found["connections"]["limit"]) == (1, None)
    assert (found["files"]["used"], found["files"]["limit"], found["files"]["tone"]) == (95, 100, "warn")


def test_memory_has_the_forecast_of_the_alarms(driver: BrokerDriver) -> None:
    driver.broker.gates.set_memory_capacity(MEMORY, 0)
    assert by_name(driver)["memory"]["tone"] == ""
    driver.alarms.forecasts[FORECAST_MEMORY] = 40.0
    found = by_name(driver)["memory"]
    assert (found["limit"], found["stop"], found["resume"]) == (10 * GIB, 8 * GIB, 7 * GIB)
    assert (found["hurts_in_s"], found["tone"]) == (40.0, "warn")


def test_certificates_have_the_time_that_is_left(driver: BrokerDriver) -> None:
    driver.certificates = TwoCertificates()
    old, new = asked(driver)["certificates"]
    assert (old["tone"], old["left_s"] < 0, new["tone"], new["name"]) == ("stop", True, "", "web")


def test_listeners_count_connections_of_amqp_only(driver: BrokerDriver) -> None:
    driver.process.listeners = [("amqp", "127.0.0.1", 5672), ("http", "127.0.0.1", 15672)]
    for _ in range(2):
        Dialogue(driver).connection.peer.local = "127.0.0.1:5672"
    assert [row["connections"] for row in asked(driver)["listeners"]] == [2, None]
