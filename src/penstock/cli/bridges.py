"""Command `bridges run`: carries messages of a queue to another broker, until it is told to end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Final

from penstock.cli.common import INTERRUPTED, given_options, print_result
from penstock.cli.parameters import Json, command, option
from penstock.cli.progress import Progress
from penstock.errors import ConfigError, PenstockError
from penstock.settings.kind import whole
from penstock.texts import counted

if TYPE_CHECKING:
    from penstock.bridges.carrier import Terms
    from penstock.bridges.foreground import Carrying
    from penstock.client.options import Options

PRODUCT: Final = "penstock-bridge"
"""Name of a bridge as a client of its brokers."""
COUNT: Final = "End when the target has N messages more."
SELECTOR: Final = "Carry messages that this selector matches; the source is read over AMQP 1.0."
UNTIL_EMPTY: Final = "End when the source has no message for two seconds."
HOPS: Final = "Add the source to the header x-received-from of each message."
EXACTLY_ONCE: Final = (
    "Carry each message exactly once, between two Penstocks; no other program may consume from the queue."
)
NAME: Final = "Name of the bridge, if it carries exactly once (default: the two ends)."


@command()
def run(
    source: Annotated[str, option(metavar="SOURCE")],
    target: Annotated[str, option(metavar="TARGET")],
    count: Annotated[int | None, option(COUNT, "N", "-n --count", kind=whole(1))],
    selector: Annotated[str, option(SELECTOR, "SELECTOR", default="")],
    until_empty: Annotated[bool, option(UNTIL_EMPTY, option="--until-empty")],
    forward_headers: Annotated[bool, option(HOPS, option="--forward-headers")],
    exactly_once: Annotated[bool, option(EXACTLY_ONCE, option="--exactly-once")],
    name: Annotated[str, option(NAME, "NAME", default="")],
    as_json: Json,
) -> None:
    """Carry messages of a queue to another broker, as fast as it takes them; either may be RabbitMQ or Artemis.

    SOURCE and TARGET are URLs of connections with ?queue=NAME; a target may be ?exchange=NAME&key=KEY instead, and
    without either it is the queue of the source's name. A message leaves its queue after the other broker has confirmed
    it. A full target holds the source, and the source its producers. Ctrl-C ends in order; the same command goes on.
    Exit code 1: a message was refused.

    For example: penstock bridges run 'amqp://old-host/?queue=orders' amqp://new-host/ --until-empty, or
    penstock bridges run 'amqp://host/?queue=orders' 'amqp://host/audit?exchange=log' --count 1000
    """
    from penstock.bridges.carrier import Terms
    from penstock.bridges.foreground import carry

    terms = Terms(count=count, selector=selector, until_empty=until_empty, with_hops=forward_headers)
    carrier = _carrier(source, target, terms, exactly_once, name)
    ended, interrupted = "", False
    progress = Progress(False)
    try:
        interrupted = carry(carrier, progress.tell)
    except PenstockError as error:
        if not carrier.state.carried and not carrier.underway:
            raise
        ended = str(error)
    finally:
        progress.end()
    state = carrier.state
    answer = {
        "carried": state.carried,
        "bytes": state.bytes,
        "refused": state.refused,
        "redelivered": state.again,
        "doubtful": carrier.underway,
        "reasons": state.reasons,
        "error": ended or None,
    }
    print_result(as_json, answer, _sentence(carrier, ended))
    if interrupted:
        sys.exit(INTERRUPTED)
    if ended or state.refused:
        sys.exit(1)


def _carrier(source: str, target: str, terms: Terms, exactly_once: bool, name: str) -> Carrying:
    """Return a carrier between two URLs. Raises `ConfigError`."""
    from penstock.bridges.ends import source_of, target_of

    first = source_of(source)
    second = target_of(target, first)
    if exactly_once:
        from penstock.bridges.block_carrier import BlockCarrier

        if terms.selector or terms.with_hops:
            raise ConfigError("--exactly-once carries messages as they are, without --selector and --forward-headers")
        old, new = (_options(each.url, protocol="amqp091") for each in (first, second))
        return BlockCarrier(first, second, old, new, terms, name)
    if name:
        raise ConfigError("--name is of a bridge that carries exactly once: add --exactly-once")
    from penstock.bridges.carrier import Carrier

    reading = {"protocol": "amqp10"} if terms.selector else {}
    return Carrier(first, second, _options(first.url, **reading), _options(second.url), terms)


def _options(url: str, **fields: object) -> Options:
    """Return the options of one end, whose connection is tried again when it is lost."""
    return given_options(url, product=PRODUCT, reconnect=True, **fields)


def _sentence(carrier: Carrying, ended: str) -> str:
    state = carrier.state
    parts = [f"{counted(state.carried, 'message')} carried"]
    if state.refused:
        parts.append(f"{state.refused:,} refused and left ({state.reasons[-1]})")
    if state.again:
        parts.append(f"{state.again:,} had been delivered before")
    if carrier.underway:
        parts.append(f"{carrier.underway:,} were on their way and may be in both queues")
    if ended:
        parts.append(ended)
    return "; ".join(parts)
