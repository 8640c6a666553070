"""Text of a settings file on its way from a node to a shard."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from penstock.cluster.settings_feed import SettingsFeed, read_settings
from penstock.errors import ConfigError
from penstock.settings.config import parse

FILE = Path("penstock.toml")


async def test_text_longer_than_a_socket_takes_at_once_arrives_whole() -> None:
    patterns = [f'[queue."q{number}.#"]\nmax-length = 5\n' for number in range(10_000)]
    text = "".join(["[broker]\nchannel-max = 9\n", *patterns])
    feed = SettingsFeed(asyncio.get_running_loop())
    assert not feed.was_renewed
    feed.renew(parse(FILE, text))
    assert feed.was_renewed
    found = await read_settings(feed.begin(), FILE)
    assert (found.text, found.channel_max, len(found.patterns)) == (text, 9, 10_000)


async def test_sockets_have_the_text_of_the_last_reload() -> None:
    feed = SettingsFeed(asyncio.get_running_loop())
    for number in (3, 4):
        feed.renew(parse(FILE, f"[broker]\nchannel-max = {number}\n"))
        assert (await read_settings(feed.begin(), FILE)).channel_max == number
    feed.renew(parse(FILE, ""))
    assert (await read_settings(feed.begin(), FILE)).text == ""


async def test_text_that_is_not_valid_is_refused_with_the_name_of_the_file() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        ours.sendall(b"[broker]\nchannel-max = 0\n")
    with pytest.raises(ConfigError, match=r"'penstock.toml' line 2: channel-max must be"):
        await read_settings(theirs, FILE)


async def test_shard_that_ends_early_costs_the_feed_nothing() -> None:
    feed = SettingsFeed(asyncio.get_running_loop())
    feed.renew(parse(FILE, "#" * 1_000_000))
    feed.begin().close()
    assert (await read_settings(feed.begin(), FILE)).text == "#" * 1_000_000
    feed.close()
