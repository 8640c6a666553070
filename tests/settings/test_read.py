"""Arguments of declarations and settings of patterns: by any broker's names, or refused in a sentence.

Also: fixed features of a queue, and Artemis's settings without an equivalent, refused with an alternative.
"""

from __future__ import annotations

import pytest

from penstock.core.settings.policy_reader import read_policy
from penstock.errors import PreconditionFailed
from penstock.settings.read import (
    FEATURES,
    FOREIGN,
    OF_RABBITMQ,
    READ_LETTERS,
    READ_MAX,
    SPELT_LEAST,
    read_arguments,
    read_client_properties,
    read_consume_arguments,
    read_link_properties,
    read_pattern,
    read_settings,
)
from penstock.settings.table import ALIASES, OURS, SCOPED_ALIASES, SCOPES
from penstock.settings.without_effect import OF_QUEUES
from tests.support.setting_values import NUMBERS, TEXTS


@pytest.mark.parametrize("name", NUMBERS)
def test_alias_is_read_under_the_own_name_and_remembered_as_given(name: str) -> None:
    word = read_arguments("q", {name: 50})[ALIASES[name]]
    assert word.alias == name
    assert word.raw == 50
    # Qpid C++ resumes strictly below its threshold, we at or below ours.
    assert word.number == (49 if name.startswith("qpid.flow_resume") else 50)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"x-max-length": -5}, "x-max-length must be a whole number from 0, or none, not -5"),
        ({"x-max-length": "many"}, "x-max-length must be a whole number from 0, not 'many'"),
        ({"x-max-length": 2.5}, "x-max-length must be a whole number from 0, or none, not 2.5"),
        ({"capacity-bytes": True}, "capacity-bytes must be bytes from 0 (such as 64MiB), or none, not true"),
        ({"capacity-bytes": None}, "capacity-bytes must be bytes from 0 (such as 64MiB), or none, not null"),
        ({"capacity-bytes": 1 << 62}, "must be bytes from 0 to 4611686018427387903 (such as 64MiB), or none, not"),
        ({"stop-percent": 101}, "stop-percent must be a percentage from 0 to 100, or none, not 101"),
        ({"x-overflow": "drop-tail"}, "or page, not 'drop-tail'; did you mean drop-head?"),
        (
            {"overflow": "explode"},
            "overflow must be an overflow policy: block, drop-head, ring-strict, reject, reject-dead",
        ),
        ({"qpid.flow_stop_cuont": 5}, " has no argument 'qpid.flow_stop_cuont'; did you mean qpid.flow_stop_count?"),
        ({"capacity-massages": 5}, "did you mean capacity-messages?"),
        ({"page-limit-massages": 5}, "did you mean page-limit-messages?"),
        (
            {"page-full-policy": "wait"},
            "must be a policy for what may not be paged any more: block, reject or drop-new, not",
        ),
        ({"page-full-policy": "drop-old"}, "did you mean drop?"),
        ({"page-limit-bytes": -5}, "page-limit-bytes must be bytes from 0 (such as 64MiB), or -1 or none, not -5"),
        ({"x-max-lenght": 5}, "did you mean x-max-length?"),
        ({"max-priority": 5}, " has no argument 'max-priority'; did you mean x-max-priority?"),
        ({"x-max-priorty": 5}, "did you mean x-max-priority?"),
        ({"single-active-consumer": True}, "'single-active-consumer'; did you mean x-single-active-consumer?"),
        ({"x-single-active-consummer": True}, "did you mean x-single-active-consumer?"),
        ({"queue-type": "quorum"}, "did you mean x-queue-type?"),
        ({"x-message-tll": 5}, "did you mean x-message-ttl?"),
        ({"x-delivery-limits": 5}, "did you mean x-delivery-limit?"),
        ({"x-expire": 5}, "did you mean x-expires?"),
        ({"flowResumeCapasity": 5}, "did you mean flowResumeCapacity?"),
        ({"hold-dedline": 5}, "did you mean hold-deadline?"),
        ({"x-capcity-messages": 5}, "did you mean x-capacity-messages?"),
        ({"x-overflo": "page"}, "did you mean x-overflow?"),
        ({"x-mesage-ttl": 5}, "did you mean x-message-ttl?"),
        ({"x-Max-Length": 5}, " has no argument 'x-Max-Length'; did you mean x-max-length?"),
        ({"x-expires": 0}, "from 1 (such as 30min), or none, not 0; 0 would delete the queue at once"),
        ({"max-size-messages": 5, "qpid.max_count": 6}, "qpid.max_count=6 contradicts max-size-messages=5"),
        ({"max-size-byte": 5}, "did you mean max-size-bytes?"),
        ({"address-full-polcy": "BLOCK"}, "did you mean address-full-policy?"),
        ({"slow-consumer-polcy": "notify"}, "did you mean slow-consumer-policy?"),
        (
            {"slow-consumer-policy": "kick"},
            "slow-consumer-policy must be a policy for slow consumers: notify or cancel, not 'kick'",
        ),
        ({"capacity-bytes": "5 parsecs"}, "bytes from 0 (such as 64MiB), or none, not '5 parsecs'"),
        ({"capacity-bytes": "0.3 KiB"}, "bytes from 0 (such as 64MiB), or none, not '0.3 KiB'"),
        ({"message-ttl": "5 MB"}, "message-ttl must be milliseconds from 0 (such as 30min), or none, not '5 MB'"),
        ({"hold-deadline": "5 MB"}, "hold-deadline must be seconds from 0 (such as 30s), or none, not '5 MB'"),
        ({"capacity-messages": "5KiB"}, "must be a whole number from 0, or none, not '5KiB'"),
        (
            {"consumer-max-rate": 0},
            "or -1 or none, not 0; 0 would stop it for ever; use `penstock block`, or unset the rate",
        ),
        ({"consumer-max-rate": -5}, "consumer-max-rate must be a number above 0, or -1 or none, not -5"),
        ({"consumerMaxRate": 0}, "consumerMaxRate must be a whole number from 1, or -1 or none, not 0"),
        ({"consumerMaxRate": 1.5}, "consumerMaxRate must be a whole number from 1, or -1 or none, not 1.5"),
        ({"consumerMaxRate": -2}, "consumerMaxRate must be a whole number from 1, or -1 or none, not -2"),
        (
            {"consumer-window-bytes": -2},
            "consumer-window-bytes must be bytes from 0 (such as 64MiB), or -1 or none, not -2",
        ),
        ({"slow-consumer-period": 0}, "must be seconds above 0 (such as 30s), not 0"),
        ({"hold-deadline": "soon"}, "hold-deadline must be seconds from 0 (such as 30s), or none, not 'soon'"),
        ({"hold-deadline": float("nan")}, "or none, not NaN"),
        ({"hold-deadline": float("inf")}, "or none, not Infinity"),
        ({"stop-messages": -1}, "stop-messages must be a whole number from 0, or none, not -1"),
        ({"x-dead-letter-exchange": 5}, "x-dead-letter-exchange must be a string of 0 to 255 bytes, not 5"),
        ({"dead-letter-routing-key": "k" * 256}, "must be a string of 0 to 255 bytes, not 'kkk"),
        ({"x-dead-leter-exchange": "dlx"}, "did you mean x-dead-letter-exchange?"),
        ({"x-dead-letter-routing-kye": "k"}, "did you mean x-dead-letter-routing-key?"),
    ],
)
def test_invalid_argument_is_refused_in_a_sentence(arguments: dict[str, object], part: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        read_arguments("orders", arguments)
    assert part in str(caught.value)
    assert "queue 'orders'" in str(caught.value)


def test_names_for_one_setting_that_agree_are_no_contradiction() -> None:
    assert read_arguments("q", {"max-size-messages": 5, "qpid.max_count": 5})["capacity-messages"].number == 5


def test_arguments_that_are_equal_are_read_once_and_those_of_another_type_again() -> None:
    first = read_arguments("a", {"x-max-length": 1})
    assert read_arguments("b", {"x-max-length": 1}) is first
    with pytest.raises(PreconditionFailed, match="queue 'b': x-max-length"):
        read_arguments("b", {"x-max-length": True})
    for number in range(READ_MAX):
        read_arguments("a", {"x-max-length": number + 2})
    assert read_arguments("b", {"x-max-length": 1}) is not first


def test_arguments_that_are_long_are_read_each_time() -> None:
    long = {"x-max-length": 1, "comment": "x" * READ_LETTERS}
    assert read_arguments("a", long) is not read_arguments("a", long)


def test_arguments_without_relation_to_flow_control_are_ignored() -> None:
    arguments: dict[str, object] = dict.fromkeys(OF_QUEUES, "lazy")
    arguments |= {"x-queue-type": "classic", "x-my-own": 5, "colour": "red"}
    assert read_arguments("q", arguments) == {}


@pytest.mark.parametrize("scope", sorted(SCOPES))
def test_settings_of_a_scope_can_all_be_read(scope: str) -> None:
    texts = {**TEXTS, "memory-stop": "40%"}
    if scope == "address":
        texts["overflow"] = "block"
    for name in SCOPES[scope]:
        assert set(read_settings(scope, "", {name: texts.get(name, "7")})) == {name}


@pytest.mark.parametrize(
    ("scope", "settings", "said"),
    [
        (
            "user",
            {"rate-messages": 0},
            "user 'x': rate-messages must be a number above 0, or none, not 0; 0 would stop it",
        ),
        ("producer", {"producerMaxRate": "0"}, "producerMaxRate must be a whole number from 1, or -1 or none, not '0'"),
        (
            "producer",
            {"producerMaxRate": "1.5"},
            "producerMaxRate must be a whole number from 1, or -1 or none, not '1.5'",
        ),
        ("user", {"rate-messages": -1}, "rate-messages must be a number above 0, or none, not -1"),
        ("user", {"weight": -1}, "weight must be a whole number from 1 to 100, not -1"),
        ("user", {"weight": 0}, "weight must be a whole number from 1 to 100, not 0"),
        ("user", {"weight": 101}, "weight must be a whole number from 1 to 100, not 101"),
        ("user", {"burst-messages": 0}, "burst-messages must be a whole number from 1, not 0"),
        ("queue", {"weight": 5}, "weight is not a setting of scope queue, but of scope user"),
        ("user", {"capacity-bytes": 5}, "capacity-bytes is not a setting of scope user, but of scope queue, address"),
        ("user", {"qpid.max_size": 5}, "qpid.max_size is not a setting of scope user, but of scope queue"),
        ("queue", {"capacity-byte": 5}, "scope queue has no setting 'capacity-byte'; did you mean capacity-bytes?"),
        ("user", {"zzz": 5}, "scope user has no setting 'zzz'; known are rate-messages"),
        ("que", {}, "scope 'que' is not known; did you mean queue?"),
        ("planet", {}, "scope 'planet' is not known; known are queue, address, vhost"),
        (
            "broker",
            {"memory-capacity": "140%"},
            "memory-capacity must be bytes from 0 (such as 64MiB), or none, or 1% to 100% of the",
        ),
        ("broker", {"memory-capacity": "much"}, "1% to 100% of the machine's memory, not 'much'"),
        ("queue", {"stop-messages": 5, "qpid.flow_stop_count": 6}, "qpid.flow_stop_count=6 contradicts stop-messages"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_in_a_sentence(
    scope: str, settings: dict[str, object], said: str
) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        read_settings(scope, "x", settings)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("scope", "pattern", "said"),
    [
        ("queue", "", "scope queue needs a pattern of names; # matches all"),
        ("queue", "orders*", "* in 'orders*' must be a whole word; it matches one whole word between dots"),
        ("queue", "a.#b", "# in '#b' must be a whole word; it matches any number of whole words"),
        ("queue", "x" * 256, "is longer than 255 bytes"),
        ("broker", "#", "there is one broker, so scope broker takes no pattern; leave out '#'"),
    ],
)
def test_patterns_that_cannot_be_meant_are_refused_in_a_sentence(scope: str, pattern: str, said: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        read_pattern(scope, pattern)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("scope", "name", "part"),
    [
        ("vhost", "capacity", "penstock policies set defaults '.*' capacity=VALUE"),
        ("vhost", "flowResumeCapacity", "and resume-bytes of scope vhost the sum of its queues"),
        ("vhost", "max-size-bytes", "max-size-bytes limits each queue by itself"),
        ("address", "qpid.max_count", "use capacity-messages here, or qpid.max_count in scope queue"),
    ],
)
def test_limit_of_a_queue_by_a_foreign_name_is_refused_for_a_sum(scope: str, name: str, part: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        read_settings(scope, "a", {name: 5})
    assert part in str(caught.value)


def test_names_of_other_brokers_are_settings_of_patterns_too() -> None:
    assert read_settings("broker", "", {"default-flow-stop-threshold": 60})["stop-percent"].real == 60
    assert read_settings("broker", "", {"flow_resume_threshold": 50})["resume-percent"].real == 50
    assert read_settings("broker", "", {"default-queue-limit": 0})["capacity-bytes"].none
    assert read_settings("producer", "a", {"producerMaxRate": -1})["rate-messages"].none
    assert read_settings("queue", "q", {"max-length": 5})["max-length"].number == 5


@pytest.mark.parametrize(
    ("properties", "value"),
    [
        ({"producerMaxRate": 10, "product": "p", "producer": "me", "platform": {}}, 10.0),
        ({"rate-messages": 1.5}, 1.5),
        ({"product": "p", "rate": 5}, None),
    ],
)
def test_rates_of_a_client_are_among_its_properties(properties: dict[str, object], value: float | None) -> None:
    words = read_client_properties(properties)
    assert (words["rate-messages"].real if words else None) == value


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"producerMaxRate": 0}, "client: producerMaxRate must be a whole number from 1, or -1 or none, not 0"),
        ({"producermaxrate": 5}, "client has no setting 'producermaxrate'; did you mean producerMaxRate?"),
        ({"rate-mesages": 5}, "client has no setting 'rate-mesages'; did you mean rate-messages?"),
        ({f"rate-{n}": 5 for n in range(17)}, "client: 17 properties of rates; the most is 16"),
    ],
)
def test_wrong_rates_of_a_client_are_refused(properties: dict[str, object], said: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        read_client_properties(properties)
    assert str(refused.value).startswith(said)


def test_foreign_names_are_not_ours() -> None:
    ours = {*ALIASES, *FEATURES, *OF_QUEUES}
    for names in (*SCOPES.values(), *SCOPED_ALIASES.values()):
        ours |= names.keys()
    assert not ours & FOREIGN.keys()


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_name_is_refused_wherever_settings_are_read(name: str) -> None:
    advice = f"there is no setting {name}, which is one of Artemis; {FOREIGN[name]}"
    for scope in SCOPES:
        with pytest.raises(PreconditionFailed) as caught:
            read_settings(scope, "a", {name: 5})
        assert str(caught.value) == f"scope {scope}: {advice}"
    with pytest.raises(PreconditionFailed) as caught:
        read_arguments("q", {name: 5})
    assert str(caught.value) == f"queue 'q': {advice}"
    with pytest.raises(PreconditionFailed):
        read_arguments("q", {f"x-{name}": 5})
    with pytest.raises(PreconditionFailed) as caught:
        read_consume_arguments("tag", {name: 5})
    assert str(caught.value) == f"consumer 'tag': {advice}"
    with pytest.raises(PreconditionFailed) as caught:
        read_link_properties("link", {name: 5})
    assert str(caught.value) == f"link 'link': {advice}"
    with pytest.raises(PreconditionFailed) as caught:
        read_policy("/", "p", {"pattern": "a", "definition": {name: 5}}, False)
    assert advice in str(caught.value)


def test_advice_names_settings_that_exist() -> None:
    known = {name for scope in SCOPES.values() for name in scope}
    advice = " ".join(FOREIGN.values())
    named = [word.strip(",;").partition("=")[0] for word in advice.split() if word.count("-") >= 1]
    elsewhere = {
        "min-large-message",
        "alternate-exchange",
        "x-single-active-consumer",
        "auto-delete",
        "start-up",
        "dead-letter",
    }
    assert {word for word in named if word not in known} <= elsewhere


def test_policy_of_an_address_is_block_or_refused_with_where_to_set_it() -> None:
    for name, value in (("address-full-policy", "BLOCK"), ("overflow", "block")):
        assert read_settings("address", "a", {name: value})["overflow"].text == "block"
    for value in ("PAGE", "DROP", "FAIL"):
        with pytest.raises(PreconditionFailed) as caught:
            read_settings("address", "jms.queue.a", {"address-full-policy": value})
        assert str(caught.value) == (
            f"address 'jms.queue.a': address-full-policy={value} is a policy of queues, and an address blocks at its "
            "bound; give it to the queues with a capacity of theirs: "
            f"`penstock queues set PATTERN address-full-policy={value}`, or by a policy"
        )
    with pytest.raises(PreconditionFailed, match="must be an overflow policy"):
        read_settings("address", "a", {"address-full-policy": "WAIT"})


@pytest.mark.parametrize("name", sorted({*OURS, *ALIASES}))
def test_name_with_a_letter_too_few_is_refused_wherever_that_is(name: str) -> None:
    for at in range(1 if name[1] != "-" else 3, len(name)):
        wrong = name[:at] + name[at + 1 :]
        if len(name) >= SPELT_LEAST and wrong not in {*OURS, *ALIASES}:
            with pytest.raises(PreconditionFailed, match="has no argument"):
                read_arguments("q", {wrong: 5})


@pytest.mark.parametrize("name", OF_RABBITMQ)
def test_name_of_rabbitmq_that_would_burn_attempts_is_refused_wherever_it_is_read(name: str) -> None:
    for arguments in ({name: 1000}, {f"x-{name}": 1000}):
        for read in (read_arguments, read_consume_arguments):
            with pytest.raises(PreconditionFailed, match="of RabbitMQ is not supported here; set retry-delay"):
                read("q", arguments)
