"""`penstock alarms`: raised alarms, once or as they change."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any, Final

from penstock.cli.common import INTERRUPTED, control_session, say, say_json, styled
from penstock.cli.parameters import Json, Url, command
from penstock.texts import counted

LOOK_S: Final = 1.0
"""Seconds between two requests of --follow: alarms are checked as often."""
STYLES: Final = {"critical": "alarm", "warning": "warning"}
Alarm = dict[str, Any]


@command("list")
def list_(
    follow: Annotated[bool, "Print raised alarms, then each change of them, until Ctrl-C."],
    as_json: Json,
    url: Url,
) -> None:
    """List raised alarms: conditions that need a person, each with what to do.

    `penstock alarms` is the same. Exit code 1: at least one alarm is raised. With --json and --follow: one object a
    line. For example: penstock alarms list, or penstock alarms --follow
    """
    with control_session(url) as control:
        if follow:
            try:
                _follow(control, as_json)
            except KeyboardInterrupt:
                sys.exit(INTERRUPTED)
        answer = control.request("alarm.list")
    if as_json:
        say_json(answer, indent=2)
    else:
        _print(answer)
    if answer["alarms"]:
        sys.exit(1)


def _print(answer: dict[str, Any]) -> None:
    for alarm in answer["alarms"]:
        say(f"{styled(alarm['severity'], STYLES.get(alarm['severity']))} {_sentence(alarm)}")
    if not answer["alarms"]:
        say("no alarm is raised")
    if answer["omitted"]:
        say(f"and {counted(answer['omitted'], 'more condition')} without an alarm of their own")
    hook = answer["hook"]
    if hook is not None and hook["error"]:
        say(f"the web hook does not take alarms: {hook['error']}")


def _sentence(alarm: Alarm) -> str:
    where = f" (vhost {alarm['vhost']})" if alarm["vhost"] else ""
    return f"{alarm['kind']}{where} for {alarm['for_s']:,.0f} s: {alarm['text']}; {alarm['action']}"


def _follow(control: Any, as_json: bool) -> None:
    """Print changes until Ctrl-C. Alarms of several nodes differ by their node."""
    known: dict[tuple[str, int], Alarm] = {}
    while True:
        present = {(str(each["node"]), int(each["id"])): each for each in control.request("alarm.list")["alarms"]}
        for key, alarm in present.items():
            if key not in known:
                _print_change("raised", alarm, as_json)
        for key, alarm in known.items():
            if key not in present:
                _print_change("cleared", alarm, as_json)
        known = present
        time.sleep(LOOK_S)


def _print_change(change: str, alarm: Alarm, as_json: bool) -> None:
    if as_json:
        say_json({"change": change, **alarm})
    elif change == "raised":
        say(f"raised: {styled(alarm['severity'], STYLES.get(alarm['severity']))} {_sentence(alarm)}")
    else:
        where = f" (vhost {alarm['vhost']})" if alarm["vhost"] else ""
        say(f"cleared: {alarm['kind']}{where}: {alarm['subject']}")
