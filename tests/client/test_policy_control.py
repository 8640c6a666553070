"""Policies by the client's functions."""

from __future__ import annotations

import pytest

from penstock.client import Connection, ControlClient, ControlError
from penstock.client.policy_control import clear_policy, list_policies, set_policy


def test_policy_is_set_listed_and_cleared(connection: Connection) -> None:
    with ControlClient(connection) as control:
        fields = {"pattern": "^by-client", "definition": {"max-length": 5}}
        assert set_policy(control, "by-client", fields, False)["created"] is True
        assert "by-client" in [each["name"] for each in list_policies(control, False, True)]
        clear_policy(control, "by-client", False)
        with pytest.raises(ControlError, match="no policy 'by-client'"):
            clear_policy(control, "by-client", False)
