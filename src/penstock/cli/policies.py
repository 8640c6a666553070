"""Policy commands: set, clear and list the policies and operator policies of a virtual host."""

from __future__ import annotations

import json

import click

from penstock.cli.absent import IF_EXISTS, maybe_absent
from penstock.cli.common import JSON, URL, OneOf, control_session, main, pairs, report_errors, say, say_json
from penstock.cli.completion import names_of
from penstock.cli.lists import LIST, Columns, Shown, Value, print_list
from penstock.errors import ConfigError

APPLY_TO = ("all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges")
OPERATOR = click.option("--operator", is_flag=True, help="Take operator policies, which limit what others may set.")


@main.group()
def policies() -> None:
    """Set, clear and list policies: settings for the queues and exchanges of one virtual host, as in RabbitMQ.

    A policy is stronger than `penstock set queue`, and weaker than the arguments of a queue; of limits the smallest
    applies.
    """


@policies.command("set")
@click.argument("name")
@click.argument("pattern")
@click.argument("words", metavar="DEFINITION | KEY=VALUE...", nargs=-1, required=True)
@click.option("--priority", type=int, default=0, show_default=True, help="Of several that match, the highest applies.")
@click.option("--apply-to", type=OneOf(APPLY_TO), default=None, help="Apply it to these only.")
@OPERATOR
@JSON
@URL
def set_(
    name: str,
    pattern: str,
    words: tuple[str, ...],
    priority: int,
    apply_to: str | None,
    operator: bool,
    as_json: bool,
    url: str,
) -> None:
    """Set policy NAME for all names that the regular expression PATTERN matches, at once.

    The definition is a JSON object, as for rabbitmqctl, or KEY=VALUE words. For example: penstock policies set lost
    '^orders\\.' alternate-exchange=lost, or penstock policies set short '^celery' '{"max-length": 1000}'
    """
    with report_errors():
        definition = _definition(words)
        with control_session(url) as control:
            answer = control.set_policy(
                name, pattern, definition, priority=priority, apply_to=apply_to, operator=operator
            )
    if as_json:
        say_json(answer)
        return
    say(f"policy {name} is {'set' if answer['created'] else 'changed'}")
    for sentence in answer["sentences"]:
        say(sentence)


@policies.command("clear")
@click.argument("name", shell_complete=names_of("policies"))
@OPERATOR
@IF_EXISTS
@JSON
@URL
def clear(name: str, operator: bool, if_exists: bool, as_json: bool, url: str) -> None:
    """Remove policy NAME.

    For example: penstock policies clear short
    """
    absent = maybe_absent(if_exists, as_json, {"policy": name}, f"policy {name} does not exist")
    with control_session(url) as control, absent:
        answer = control.clear_policy(name, operator=operator)
    if as_json:
        say_json(answer)
    else:
        say(f"policy {name} is cleared")


@policies.command("list")
@click.option("--everywhere", is_flag=True, help="List all virtual hosts, not only the one in --url.")
@OPERATOR
@LIST
@URL
def list_(everywhere: bool, operator: bool, shown: Shown, url: str) -> None:
    """List the policies; keys in the last column are kept, and have no effect here.

    For example: penstock policies list
    """
    with control_session(url) as control:
        found = control.policies(operator=operator, everywhere=everywhere)
    computed: dict[str, Value] = {"without effect": lambda item: ", ".join(item["without_effect"]) or None}
    columns = ("vhost", "name", "pattern", "apply-to", "priority", "definition", "without effect")
    with report_errors():
        print_list(found, Columns(columns, computed), shown)


def _definition(words: tuple[str, ...]) -> dict[str, object]:
    """Return the definition given as a JSON object or as words. Raises ConfigError."""
    if not words[0].lstrip().startswith("{"):
        return pairs(words)
    try:
        found = json.loads(words[0])
    except ValueError as error:
        raise ConfigError(f"the definition is not JSON: {error}") from None
    if len(words) > 1 or not isinstance(found, dict):
        raise ConfigError("the definition must be one JSON object, or KEY=VALUE words")
    return found
