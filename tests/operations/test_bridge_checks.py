"""Checks of parameters of bridges: their keys on all ways in, and whose rights they run with."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.access.permission import Permission
from penstock.access.user import User
from penstock.core.settings.table import Parameter
from penstock.driver.driver import BrokerDriver
from penstock.errors import PreconditionFailed, ResourceError
from penstock.management.elsewhere import Elsewhere
from penstock.operations import vhosts
from penstock.operations.bridge_checks import check_parameter, check_runs, idle_keys
from penstock.operations.parameters import put_parameter
from penstock.settings.pools import BRIDGES
from tests.support.access_of import access_of

SHOVEL = {"src-uri": "amqp:///", "src-queue": "a", "dest-uri": "amqp://u:secret@far", "dest-queue": "a"}
BRIDGE = {"source": "amqp:///?queue=a", "target": "amqp://u:secret@far"}
UPSTREAM = {"uri": "amqp://u:secret@far"}


def parameter(component: str, value: object, **changes: object) -> Parameter:
    if isinstance(value, dict):
        value = {**value, **{name.replace("_", "-"): each for name, each in changes.items()}}
    return Parameter(component, "/", "n", value)


GOOD = [
    parameter("shovel", SHOVEL), parameter("bridge", BRIDGE), parameter("federation-upstream", UPSTREAM),
    parameter("federation-upstream-set", [{"upstream": "up"}]), parameter("of-a-plugin", 5),
]  # fmt: skip


@pytest.mark.parametrize("good", GOOD, ids=lambda each: str(each.component))
def test_parameter_of_each_component_is_accepted(driver: BrokerDriver, good: Parameter) -> None:
    check_parameter(good)
    check_runs(driver, good, access_of(driver.broker))


@pytest.mark.parametrize("component", ["shovel", "bridge", "federation-upstream", "federation-upstream-set"])
def test_value_of_another_type_is_refused(component: str) -> None:
    with pytest.raises(PreconditionFailed, match=r"the value must be an object|the value must be a list"):
        check_parameter(parameter(component, 5))


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (parameter("shovel", SHOVEL, dest_uri="amqp://"), "queue a of this broker would be carried onto itself"),
        (parameter("shovel", SHOVEL, src_uri="amqp://far", dest_uri="amqp://FAR:5672"), "carried onto itself"),
        (parameter("bridge", BRIDGE, target="amqp://"), "queue a of this broker would be carried onto itself"),
    ],
)
def test_bridge_to_its_own_queue_is_refused(bad: Parameter, error: str) -> None:
    with pytest.raises(PreconditionFailed, match=error):
        check_parameter(bad)


def user_of(driver: BrokerDriver, name: str, *hosts: str) -> None:
    user = User(name, None, ["policymaker"])
    user.permissions = {host: Permission(".*", ".*", ".*") for host in hosts}
    driver.broker.access.restore_user(user)


@pytest.mark.parametrize(
    ("value", "may"),
    [
        (SHOVEL, True),
        ({**SHOVEL, "dest-uri": "amqp:///eu"}, False),
        ({**SHOVEL, "src-uri": ["amqp:///", "amqp:///eu"]}, False),
        ({**SHOVEL, "dest-uri": "amqp:///nosuch"}, False),
    ],
)
def test_user_runs_bridges_of_virtual_hosts_that_it_enters(driver: BrokerDriver, value: Any, may: bool) -> None:
    vhosts.declare_vhost(driver, "eu")
    user_of(driver, "anna", "/")
    access = access_of(driver.broker, "anna")
    if may:
        check_runs(driver, parameter("shovel", value), access)
    else:
        with pytest.raises(PreconditionFailed, match=r"user 'anna' may not enter vhost '(eu|nosuch)'"):
            check_runs(driver, parameter("shovel", value), access)


@pytest.mark.parametrize(
    ("each", "may"),
    [
        (parameter("shovel", SHOVEL), False),
        (parameter("federation-upstream", UPSTREAM), False),
        (parameter("bridge", BRIDGE, source="amqp://near?queue=a"), True),
    ],
)
def test_user_of_a_token_runs_only_bridges_between_other_brokers(
    driver: BrokerDriver, each: Parameter, may: bool
) -> None:
    access = access_of(driver.broker, "of-a-token")
    if may:
        check_runs(driver, each, access)
    else:
        with pytest.raises(PreconditionFailed, match="user 'of-a-token', which is no user of this broker's table"):
            check_runs(driver, each, access)


def test_bridges_that_run_are_shared_among_users_and_paused_ones_are_not(driver: BrokerDriver) -> None:
    for name in ("anna", "bob"):
        user_of(driver, name, "/")
    pool = driver.broker.pools.of(BRIDGES)
    pool.set_limit(8)
    for number in range(6):
        put_parameter(driver, Parameter("shovel", "/", f"s{number}", SHOVEL, "anna" if number < 2 else ""))
    anna, another = access_of(driver.broker, "anna"), Parameter("shovel", "/", "s3", SHOVEL)
    with pytest.raises(ResourceError, match="user 'anna' in vhost '/' has 2 and one more does not fit into its share"):
        check_runs(driver, another, anna)
    check_runs(driver, Parameter("shovel", "/", "s0", SHOVEL), anna)
    check_runs(driver, parameter("federation-upstream", UPSTREAM), anna)
    check_runs(driver, another, access_of(driver.broker, "bob"))
    assert pool.taken == 2
    put_parameter(driver, Parameter("shovel", "/", "s0", SHOVEL))
    driver.bridges.wanted()
    assert pool.taken == 1
    check_runs(driver, another, anna)


def test_keys_without_effect_are_those_of_the_component() -> None:
    assert [idle_keys(each) for each in GOOD] == [[], [], [], [], []]
    assert len(idle_keys(parameter("shovel", SHOVEL, internal=True))) == 1
    assert len(idle_keys(parameter("federation-upstream", UPSTREAM, ha_policy="all"))) == 1


class OtherShards(Elsewhere):
    """A node whose other shards are asked for nothing."""


def test_bridge_to_a_vhost_of_another_shard_is_refused_with_what_to_do(driver: BrokerDriver) -> None:
    user_of(driver, "anna", "/", "eu")
    driver.control.elsewhere = OtherShards()
    access = access_of(driver.broker, "anna")
    for vhost, why in (("eu", "is not in the shard of vhost '/': give the address of this node"), ("us", "may not")):
        with pytest.raises(PreconditionFailed, match=why):
            check_runs(driver, parameter("shovel", {**SHOVEL, "dest-uri": f"amqp:///{vhost}"}), access)
