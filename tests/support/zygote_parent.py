"""Program: a parent with a zygote, whose shards do as they are told; it obeys lines of JSON on standard input.

Each line of its output is an event of the zygote, or what a shard has sent. A program of its own, because a zygote is
forked before there are threads.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time

from penstock.cluster.packet_channel import ChannelEnded, PacketChannel, Row
from penstock.cluster.zygote import Zygote


def shard(name: str, order: Row, sockets: list[socket.socket]) -> int:
    """Report what a shard has, then do what the order says: exit, raise, or serve its channel until it ends."""
    channel = PacketChannel(sockets[0])
    ours = sorted(int(each) for each in os.listdir("/proc/self/fd"))
    channel.send({"shard": name, "pid": os.getpid(), "parent": os.getppid(), "files": len(ours)})
    if "exit" in order:
        return int(order["exit"])
    if "raise" in order:
        raise ValueError(order["raise"])
    if "hang" in order:
        while True:  # The end of the channel is not looked at.
            time.sleep(60)
    while True:
        select.select([channel], [], [])
        try:
            for packet in channel.receive():
                channel.send({"shard": name, "echo": packet.message})
        except ChannelEnded:
            return 0


def say(row: Row) -> None:
    print(json.dumps(row), flush=True)


def obey(zygote: Zygote, channels: dict[int, PacketChannel], order: Row) -> None:
    if "signal" in order:
        assert zygote.signal(order["signal"], getattr(signal, order["number"]))
        return
    ours, theirs = PacketChannel.pair()
    channels[ours.fileno()] = ours
    assert zygote.fork(order["fork"], order, [theirs])
    theirs.close()


def main() -> None:
    zygote = Zygote.begin(shard, by_signal=sys.argv[1] == "signal")
    say({"parent": os.getpid(), "zygote": zygote.pid})
    channels: dict[int, PacketChannel] = {}
    readers = [zygote.fileno(), sys.stdin.fileno()]
    while True:
        for number in select.select([*readers, *channels], [], [])[0]:
            if number == zygote.fileno():
                try:
                    for event in zygote.receive():
                        say(event._asdict())
                except ChannelEnded:
                    say({"zygote": "ended"})
                    return
            elif number in channels:
                try:
                    for packet in channels[number].receive():
                        say(packet.message)
                except ChannelEnded:
                    channels.pop(number).close()
            else:
                data = os.read(number, 65536)
                if not data:
                    zygote.stop()
                    say({"stopped": True})
                    return
                for line in data.splitlines():
                    obey(zygote, channels, json.loads(line))


if __name__ == "__main__":
    main()
