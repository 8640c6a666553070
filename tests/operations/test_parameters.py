"""Parameters that are set, listed and removed."""

from __future__ import annotations

import pytest

from penstock.core.settings.table import Parameter
from penstock.errors import NotFound
from penstock.operations import vhosts
from penstock.operations.parameters import drop_parameter, put_parameter, set_parameter
from tests.support.driven_connection import make_driver
from tests.support.operation_calls import ask, request_of


def test_parameters_are_listed_in_rabbitmqs_form_and_end_with_their_vhost() -> None:
    driver = make_driver()
    vhosts.declare_vhost(driver, "eu")
    assert put_parameter(driver, Parameter("shovel", "eu", "s", {"a": 1})) is None
    put_parameter(driver, Parameter("", "", "cluster_name", "c"))
    assert ask(driver, "parameter.list", {"everywhere": True}) == {
        "parameters": [
            {"value": {"a": 1}, "vhost": "eu", "component": "shovel", "name": "s"},
            {"name": "cluster_name", "value": "c"},
        ]
    }
    with pytest.raises(NotFound, match="no vhost 'nowhere'"):
        put_parameter(driver, Parameter("shovel", "nowhere", "s", 1))
    vhosts.delete_vhost(driver, "eu")
    assert driver.broker.table.parameters.of() == []
    with pytest.raises(NotFound, match="no parameter 's' of component 'shovel' in vhost 'eu'"):
        drop_parameter(driver, ("shovel", "eu", "s"))


VALUES = {
    "shovel": {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://host"},
    "bridge": {"source": "amqp://?queue=a", "target": "amqp://host"},
    "federation-upstream": {"uri": "amqp://host"},
}


@pytest.mark.parametrize(
    ("component", "run_as"), [("shovel", "guest"), ("bridge", "guest"), ("federation-upstream", "guest"), ("toy", "")]
)
def test_bridge_set_by_name_runs_as_the_user_who_sets_it(component: str, run_as: str) -> None:
    driver = make_driver()
    request = request_of(driver, "guest", component=component, vhost="/", name="n", value=VALUES.get(component, 5))
    assert set_parameter(driver, request) == {"created": True}
    [parameter] = driver.broker.table.parameters.of()
    assert parameter.run_as == run_as
    assert list(driver.bridges.wanted()) == ([f"{component}:/:n"] if component in ("shovel", "bridge") else [])
