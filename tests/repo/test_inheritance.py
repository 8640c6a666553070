"""Inheritance is shallow: a class has at most one class above it, besides interfaces."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.support.source_trees import nodes_of

SOURCES = Path(__file__).resolve().parents[2] / "src"

INTERFACES = {
    "Asked": "what a session of the client tells a request that it has sent",
    "AsyncShell": "what all objects of the client have in asyncio",
    "BlockingShell": "what all of them have with blocking calls",
    "Chore": "background work; has the link of its list",
    "ClientSession": "what a connection asks a channel or session at its end; has the order of it",
    "ConsumeContext": "what sessions use of the broker",
    "DescribedNode": "what lists, metrics and maps read of the driver",
    "GateOwner": "what a gate asks its owner",
    "Grouping": "what a queue tells its message groups",
    "GroupTaker": "what a basic.get asks them",
    "GateText": "the texts of a kind of gate",
    "Kind": "what a table of named values asks the kind of one",
    "Link": "what a session asks its links; has the order of their end",
    "Linked": "what makes publishers and receivers of the client",
    "LimitMember": "what a shared limit asks its members",
    "OverflowPolicy": "what a queue asks at its capacity",
    "PageLister": "what a read of the heads of pages tells its reader",
    "PageOwner": "what the journal tells the pages of a queue",
    "Pages": "items of the client that come page by page",
    "ProducerListener": "what a publisher tells its session; has the number of its connection",
    "PoolUnit": "what a list of idle units of a pool asks them",
    "ProtocolEngine": "what a connection asks its protocol; has what all of them use",
    "PublishContext": "what publishers use of the broker",
    "QueueContext": "what queues use of the broker",
    "RoomHolder": "what an amount asks those that have reserved room in it",
    "Runner": "what publishers and receivers of the client use of their connection",
    "SecuredProtocol": "what the layer of TLS tells the protocol above it",
    "ServedDriver": "what services for connections use of the driver",
    "Shell": "what an operation of the client asks the object that it is called on",
    "TimerHandler": "what timers call; has its live entry",
    "Topology": "what gates use of a virtual host",
    "Waiter": "what a gate asks those that wait",
}
"""Classes that only say what their subclasses answer, with what they are for."""
TREES = {"PenstockError": "one tree of errors, which `except` follows"}
"""Classes whose subclasses may be deeper, with the reason."""
DEEP = {
    "Engine091": "one protocol of a connection of the client",
    "Engine10": "the other one",
    "PublisherCore": "a line, a window and their room, each with rules of its own, and the calls that wait for them",
    "Publisher091": "one protocol of a publisher",
    "Publisher10": "the other one",
    "Receiver091": "one protocol of a receiver",
    "Receiver10": "the other one",
    "Requester091": "one protocol of a requester",
    "Requester10": "the other one",
    "Why": "a request of the client whose answer goes to a publisher",
    "Begin": "likewise, for its lane",
    "TrackedMessage": "each level adds slots that plain messages do not pay for",
    "ConnectionOutput": "a list, of those that wait, for the output of one connection",
    "Outlet": "a list, of those that wait, for output",
    "NodeFacts": "facts of a process, of one with a server, and of one whose clients are in shards",
    "_Line": "a list, of those that wait, for the credit of one session",
}
"""Classes with two classes above them, with the reason. The list only shrinks."""
MOST = 2


def bases_of_classes() -> dict[str, list[str]]:
    """Return the bases of each class by its name, without those of other libraries."""
    found: dict[str, list[str]] = {}
    for path in SOURCES.rglob("*.py"):
        for node in nodes_of(path.read_text()):
            if isinstance(node, ast.ClassDef):
                found[node.name] = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
    return found


def test_class_has_at_most_one_class_above_it_besides_interfaces() -> None:
    bases = bases_of_classes()

    def depth(name: str) -> int:
        if name not in bases or name in TREES:
            return 0
        return max((depth(base) for base in bases[name]), default=0) + (name not in INTERFACES)

    def in_tree(name: str) -> bool:
        return name in TREES or any(in_tree(base) for base in bases.get(name, []))

    deep = {name for name in bases if depth(name) > MOST and not in_tree(name)}
    assert deep == DEEP.keys()
