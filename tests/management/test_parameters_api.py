"""Parameters that are set, listed and removed."""

from __future__ import annotations

import pytest

from penstock.core.settings.parameters import Parameter
from penstock.errors import NotFound
from penstock.flow.work import finish
from penstock.management import parameters_api, vhost_admin
from penstock.management.control_request import ControlRequest
from tests.support.driven_connection import make_driver


def test_parameters_are_listed_in_rabbitmqs_form_and_end_with_their_vhost() -> None:
    driver = make_driver()
    vhost_admin.declare_vhost(driver, "eu")
    assert parameters_api.set_parameter(driver, Parameter("shovel", "eu", "s", {"a": 1})) is None
    parameters_api.set_parameter(driver, Parameter("", "", "cluster_name", "c"))
    request = ControlRequest(driver.broker.vhosts["/"], None, None, None, b'{"everywhere": true}')
    assert finish(parameters_api.answer_list(driver, request)) == {
        "parameters": [
            {"value": {"a": 1}, "vhost": "eu", "component": "shovel", "name": "s"},
            {"name": "cluster_name", "value": "c"},
        ]
    }
    with pytest.raises(NotFound, match="no vhost 'nowhere'"):
        parameters_api.set_parameter(driver, Parameter("shovel", "nowhere", "s", 1))
    vhost_admin.delete_vhost(driver, "eu")
    assert driver.broker.table.parameters.of() == []
    with pytest.raises(NotFound, match="no parameter 's' of component 'shovel' in vhost 'eu'"):
        parameters_api.clear_parameter(driver.broker, "shovel", "eu", "s")
