"""Health checks: each passes, fails with its reason, or refuses what it cannot read."""

from __future__ import annotations

from typing import Any

import pytest
from typing_extensions import override

from penstock.access.permission import ADMINISTRATOR, Permission
from penstock.driver.driver import BrokerDriver
from penstock.errors import AccessRefused, PreconditionFailed
from penstock.management.node import Certificates
from penstock.management.process_facts import ProcessFacts
from tests.support.access_of import access_of
from tests.support.driven_connection import Dialogue, make_driver
from tests.support.operation_calls import ask

CHECKS = "GET /health/checks/"
PASSED = {"status": "ok"}
DAY_S = 86_400.0


def check(driver: BrokerDriver, path: str, **parts: object) -> Any:
    """Return the verdict of a health check."""
    return ask(driver, CHECKS + path, parts)


class StartingProcess(ProcessFacts):
    """A process that does not serve clients yet."""

    @override
    def obstacle(self) -> str:
        return "the store is being opened"


class OneCertificate(Certificates):
    """A certificate that ends at a time."""

    def __init__(self, ends: float) -> None:
        self._ends = ends

    @override
    def ends(self) -> list[tuple[str, str, float]]:
        return [("server.pem", "", self._ends)]


def test_health_has_the_verdicts_of_all_checks(driver: BrokerDriver) -> None:
    found: Any = ask(driver, "health", {})
    assert (found["status"], found["node"]) == ("ok", driver.name)
    assert {each["check"]: each["status"] for each in found["checks"]} == dict.fromkeys(
        ("serves clients", "memory", "disk", "virtual hosts", "connections", "certificates"), "ok"
    )
    driver.process = StartingProcess()
    driver.certificates = OneCertificate(driver.broker.now + driver.broker.wall_offset - DAY_S)
    found = ask(driver, "GET /penstock/health", {})
    assert (found["status"], found["reason"]) == ("failed", "serves clients, certificates failed")
    reasons = {each["check"]: each["reason"] for each in found["checks"] if each["reason"]}
    assert reasons == {"serves clients": "the store is being opened", "certificates": "server.pem has ended"}


def test_checks_of_one_healthy_node_are_passed(driver: BrokerDriver) -> None:
    for path in (
        "alarms",
        "local-alarms",
        "virtual-hosts",
        "ready",
        "ready-to-serve-clients",
        "is-in-service",
        "metadata-store/initialized",
        "reached-target-cluster-size",
        "quorum-queues-without-elected-leaders/all-vhosts",
    ):
        assert check(driver, path) == PASSED
    assert check(driver, "node-is-quorum-critical") == {"status": "ok", "reason": "single node cluster"}


def test_check_of_the_service_fails_with_the_obstacle(driver: BrokerDriver) -> None:
    driver.process = StartingProcess()
    assert check(driver, "ready") == {"status": "failed", "reason": "the store is being opened"}


def test_virtual_host_that_is_being_deleted_is_down(driver: BrokerDriver) -> None:
    driver.broker.add_vhost("old").deleting = True
    verdict = check(driver, "virtual-hosts")
    assert verdict == {"status": "failed", "reason": "Some virtual hosts are down", "virtual-hosts": ["old"]}


def test_limit_of_connections_is_checked() -> None:
    driver = make_driver()
    assert check(driver, "below-node-connection-limit") == {"status": "ok", "current": 0, "limit": "infinity"}
    driver.connection_limits.change(connections_max=1)
    assert check(driver, "below-node-connection-limit")["status"] == "ok"
    Dialogue(driver)
    verdict = check(driver, "below-node-connection-limit")
    assert verdict == {"status": "failed", "reason": "connection limit reached", "current": 1, "limit": 1}


@pytest.mark.parametrize(
    ("within", "unit", "status"),
    [("19", "days", "ok"), ("21", "days", "failed"), ("2", "weeks", "ok"), ("1", "months", "failed")],
)
def test_certificate_that_expires_within_the_time_fails_its_check(
    driver: BrokerDriver, within: str, unit: str, status: str
) -> None:
    driver.broker.wall_offset = 1_700_000_000.0
    driver.certificates = OneCertificate(1_700_000_000.0 + 20 * DAY_S)
    verdict = check(driver, "certificate-expiration/{within}/{unit}", within=within, unit=unit)
    assert verdict["status"] == status
    if status == "failed":
        (ending,) = verdict["expired"]
        dates = ["2023-12-04T22:13:20+00:00"]
        assert ending == {"certfile": "server.pem", "name": None, "certfile_expires_on": dates}


@pytest.mark.parametrize(
    ("within", "unit", "words"),
    [("1", "seconds", "the unit must be one of days"), ("x", "days", "Invalid"), ("1234567890", "days", "Invalid")],
)
def test_invalid_time_of_certificates_is_refused(driver: BrokerDriver, within: str, unit: str, words: str) -> None:
    with pytest.raises(PreconditionFailed, match=words):
        check(driver, "certificate-expiration/{within}/{unit}", within=within, unit=unit)


def test_listener_is_found_by_port_and_by_protocol(driver: BrokerDriver) -> None:
    driver.process.listeners = [("amqp", "127.0.0.1", 5672), ("http", "127.0.0.1", 15672)]
    assert check(driver, "port-listener/{port}", port="5672") == {"status": "ok", "port": 5672}
    missing = check(driver, "port-listener/{port}", port="1")
    assert missing == {"status": "failed", "reason": "No active listener", "missing": 1, "ports": [5672, 15672]}
    for name in ("amqp", "amqp091", "AMQP0-9-1"):
        assert check(driver, "protocol-listener/{protocol}", protocol=name) == {"status": "ok", "protocol": "amqp"}
    missing = check(driver, "protocol-listener/{protocol}", protocol="mqtt")
    assert (missing["status"], missing["missing"], missing["protocols"]) == ("failed", "mqtt", ["amqp", "http"])
    for port in ("x", "123456"):
        with pytest.raises(PreconditionFailed, match="Invalid port"):
            check(driver, "port-listener/{port}", port=port)


def test_closed_gate_of_the_disk_is_an_alarm(driver: BrokerDriver) -> None:
    driver.broker.gates.disk.fails("full", driver.broker.now)
    verdict = check(driver, "alarms")
    assert (verdict["status"], verdict["reason"]) == ("failed", "There are alarms in effect")
    assert verdict["alarms"] == [{"node": driver.name, "resource": "disk"}]
    assert ask(driver, "GET /healthchecks/node/{node}", {"node": driver.name}) == verdict
    assert ask(driver, "GET /healthchecks/node/{node}", {"node": "other@host"}) is None


def test_aliveness_is_for_users_who_may_enter_the_virtual_host(driver: BrokerDriver) -> None:
    access = driver.broker.access
    access.put_user("monitor", None, [ADMINISTRATOR])
    monitor = access_of(driver.broker, "monitor")
    with pytest.raises(AccessRefused, match="access to vhost '/' refused for user 'monitor'"):
        ask(driver, "GET /aliveness-test/{vhost}", {"vhost": "/"}, access=monitor)
    access.set_permission("monitor", "/", Permission("", "", ""))
    assert ask(driver, "GET /aliveness-test/{vhost}", {"vhost": "/"}, access=monitor) == PASSED
