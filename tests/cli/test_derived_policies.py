"""Policy commands at the command line."""

from __future__ import annotations

from tests.support.brokers import BrokerProcess
from tests.support.commands import listed, run, told


def test_policies_are_set_listed_and_cleared(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name)
    pattern = f"^{name}"
    said = run(broker, "policies", "set", name, pattern, "max-length=5", "queue-mode=lazy")
    holds = "holds publishers at 104,857,600 bytes"
    rings = f"drops its oldest messages above 5 ready messages and {holds}"
    assert said == (
        f"policy {name} is set\nit applies to queue {name}\nqueue-mode has no effect here; kept, and exported again"
        "; it does not apply to quorum queues because of queue-mode\n"
        f"overflow changes for queue {name}: {rings}; before: {holds}\n"
    )
    queue = next(each for each in listed(broker, "queues") if each["name"] == name)
    assert (queue["policy"], queue["operator_policy"]) == (name, None)
    assert queue["effective_policy_definition"] == {"max-length": 5, "queue-mode": "lazy"}
    json_form = ["policies", "set", name, pattern, '{"max-length": 3}', "--priority", "2", "--apply-to", "queues"]
    assert told(broker, *json_form)["created"] is False
    run(broker, "policies", "set", "limit", pattern, "max-length=1", "--operator")
    assert "operator policy 'limit': max-length=1" in run(broker, "show", "queue", name)
    assert name in run(broker, "policies", "list", "--everywhere")
    assert f"  {pattern}  " in run(broker, "policies", "list", "--operator")
    gone = run(broker, "policies", "clear", "limit", "--operator").splitlines()
    assert (gone[0], gone[1].startswith(f"overflow changes for queue {name}: drops")) == (
        "policy limit is cleared",
        True,
    )
    assert f"{name}: {holds}; before: drops" in run(broker, "policies", "clear", name)
    assert (
        run(broker, "policies", "clear", name, code=1) == f"penstock: no policy '{name}' of vhost '/' (404 not-found)\n"
    )
    run(broker, "delete", "queue", name)
