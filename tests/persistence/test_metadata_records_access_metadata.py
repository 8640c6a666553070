"""Users, permissions and limits come back from the store as they were."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.access.access_table import AccessTable
from penstock.access.password_hash import hash_password, rabbitmq_hash
from penstock.access.permission import Permission, TopicPermission
from penstock.driver.driver import BrokerDriver
from penstock.errors import BrokerError
from penstock.persistence.metadata_records import PERMISSION, USER, pack
from tests.profiles import examples
from tests.support.restored_broker import Declared, journaled

NAMES = st.sampled_from(["guest", "anna", "ot/to", "ä"])
VHOSTS = st.sampled_from(["/", "/shop"])
TEXTS = st.sampled_from(["", ".*", "^q", "(", "ä"])
HASHES = st.sampled_from([None, rabbitmq_hash("a", b"salt"), hash_password("b", b"sixteen octets..")])
STEPS = st.one_of(
    st.tuples(st.just("put_user"), NAMES, HASHES, st.lists(st.sampled_from(["administrator", "other"]), max_size=2)),
    st.tuples(st.just("delete_user"), NAMES),
    st.tuples(st.just("set_tags"), NAMES, st.just(["monitoring"])),
    st.tuples(st.just("set_password"), NAMES, HASHES),
    st.tuples(st.just("set_password"), NAMES, HASHES, st.none(), st.just(True)),
    st.tuples(
        st.just("set_scram"), st.sampled_from(["anna", "ot/to"]), st.just((b"salt", b"stored", b"\0server", 4096))
    ),
    st.tuples(st.just("set_permission"), NAMES, VHOSTS, st.builds(Permission, TEXTS, TEXTS, TEXTS)),
    st.tuples(st.just("clear_permission"), NAMES, VHOSTS),
    st.tuples(
        st.just("set_topic_permission"),
        NAMES,
        VHOSTS,
        st.sampled_from(["", "amq.topic", "x"]),
        st.builds(TopicPermission, TEXTS, TEXTS),
    ),
    st.tuples(st.just("clear_topic_permissions"), NAMES, VHOSTS),
    st.tuples(st.just("set_user_limits"), NAMES, st.dictionaries(st.just("max-channels"), st.integers(-1, 5))),
    st.tuples(st.just("set_vhost_limits"), VHOSTS, st.dictionaries(st.just("max-queues"), st.integers(-1, 5))),
    st.tuples(st.just("forget_vhost"), VHOSTS),
)


def view(table: AccessTable) -> object:
    users = {
        user.name: (
            user.tags,
            user.password_hash,
            user.scram,
            user.former,
            user.everywhere,
            user.limits,
            user.permissions,
            user.topic_permissions,
        )
        for user in table.users()
    }
    return users, table.vhost_limits


def make_driver() -> BrokerDriver:
    driver = journaled()
    driver.broker.add_vhost("/shop")
    driver.broker.journal.change(driver.broker.vhosts["/shop"])
    return driver


@settings(max_examples=examples(160), deadline=None)
@given(st.lists(st.tuples(STEPS, st.booleans()), max_size=25), st.randoms(use_true_random=False))
def test_table_comes_back_as_it_was(steps: list[tuple[tuple[object, ...], bool]], chance: object) -> None:
    driver = make_driver()
    store = Declared(driver)
    for (change, *arguments), write in steps:
        with contextlib.suppress(BrokerError):
            getattr(driver.broker.access, str(change))(*arguments)
        if write:
            store.write()
    store.write()
    order = store.things()
    chance.shuffle(order)  # type: ignore[attr-defined]
    again, remarks = store.restored(order)
    assert remarks == []
    assert view(again.broker.access) == view(driver.broker.access)
    assert again.broker.access._octets == driver.broker.access._octets
    assert again.broker.access._permissions == driver.broker.access._permissions


def test_nothing_is_stored_while_guest_is_alone() -> None:
    driver = journaled()
    store = Declared(driver)
    store.write()
    assert store.names() == []
    assert store.restored()[0].broker.access.names() == ["guest"]


def test_secret_of_salts_comes_back() -> None:
    driver = journaled()
    store = Declared(driver)
    keys = driver.services.scram_keys("eve")
    store.write()
    again = store.restored()[0]
    assert again.broker.access.scram_secret.octets == driver.broker.access.scram_secret.octets != b""
    assert again.services.scram_keys("eve") == keys
    (name,) = store.shelf.things
    store.shelf.things[name] = pack({"secret": "zz"})
    again, remarks = store.restored()
    assert remarks == ["scram-secret 'salts' in the store cannot be read: its 'secret' is damaged"]
    assert again.broker.access.scram_secret.octets == b""


def test_record_that_cannot_be_read_is_told_and_leaves_the_others() -> None:
    driver = make_driver()
    store = Declared(driver)
    for name in ("anna", "otto"):
        driver.broker.access.put_user(name, rabbitmq_hash("a", b"salt"), [])
        driver.broker.access.set_permission(name, "/", Permission("", "", ""))
    store.write()
    data = store.shelf.things[USER, "anna"]
    store.shelf.things[USER, "anna"] = data.replace(b"sha256", b"sha257")
    again, remarks = store.restored()
    assert again.broker.access.names() == ["guest", "otto"]
    assert "unknown hashing_algorithm 'rabbit_password_hashing_sha257'" in remarks[0]
    assert remarks[1] == f"{PERMISSION} 'anna/%2F' in the store was not restored: no user 'anna'"
