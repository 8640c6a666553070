"""Commands of rabbitmqctl and rabbitmq-diagnostics, by what does the same here: users type them by habit."""

from __future__ import annotations

from typing import Final

HABITS: Final[dict[str, str]] = {
    **{f"list_{noun}": f"{noun} list" for noun in (
        "queues", "exchanges", "bindings", "connections", "channels", "consumers", "users", "vhosts", "permissions",
        "policies", "parameters",
    )},
    "list_operator_policies": "operator-policies list",
    "add_user": "users add",
    "delete_user": "users delete",
    "change_password": "users passwd",
    "set_user_tags": "users tags",
    "set_permissions": "permissions set",
    "clear_permissions": "permissions delete",
    "list_user_permissions": "permissions list --user NAME",
    "set_topic_permissions": "permissions set --topic EXCHANGE",
    "set_policy": "policies set",
    "clear_policy": "policies delete",
    "set_operator_policy": "operator-policies set",
    "clear_operator_policy": "operator-policies delete",
    "set_vhost_limits": "limits set vhost NAME",
    "set_user_limits": "limits set user NAME",
    "add_vhost": "vhosts declare",
    "delete_vhost": "vhosts delete",
    "purge_queue": "queues purge",
    "delete_queue": "queues delete",
    "close_connection": "connections close",
    "close_all_connections": "connections close",
    "export_definitions": "definitions export",
    "import_definitions": "definitions import",
    "environment": "config",
    "list_ciphers": "config",
    "server_version": "status",
    "node_health_check": "health",
    "check_running": "health",
    "check_alarms": "health",
    "check_local_alarms": "health",
    "check_virtual_hosts": "health",
    "check_certificate_expiration": "health",
    "check_port_connectivity": "ping",
    "check_port_listener": "ping",
    "is_running": "ping",
    "await_startup": "ping --timeout 60",
    "await_online_nodes": "ping --timeout 60",
    "memory_breakdown": "status",
    "listeners": "config",
    "cluster_status": "status",
    "observer": "top",
    "log_location": "logs",
    "log_tail": "logs",
    "log_tail_stream": "logs",
    "rotate_logs": "logs",
    "stop_app": "stop",
    "shutdown": "stop",
    "start_app": "serve",
    "set_disk_free_limit": "broker set min-disk-free=1GiB",
    "restart_vhost": "why",
}  # fmt: skip


def habit_of(name: str) -> str:
    """Return the command for what other brokers' tools call so; "" if it is none of theirs."""
    return HABITS.get(name.replace("-", "_"), "")
