"""Message selectors: meaning, refusals with positions, and bounds of cost."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from penstock.content.selector.fields import Field
from penstock.content.selector.selector import DEPTH_MAX, LENGTH_MAX, LIKE_WORK, NODES_MAX, PATTERN_MAX, parse_selector
from penstock.errors import InvalidField
from tests.profiles import examples
from tests.support.selector_model import PROPERTIES, TEXTS, Properties, Tree, model, text_of, trees


def matches(text: str, /, **values: object) -> bool:
    """Tell whether a selector matches a message with these properties."""
    selector = parse_selector(text)
    return selector.matches(Properties(values))


def ends_in_escape(tree: object) -> bool:
    """Tell whether any pattern of a tree ends with an escape character that escapes nothing."""
    if not isinstance(tree, tuple | list):
        return False
    if isinstance(tree, tuple) and tree[0] == "like":
        pattern, escape = tree[3], tree[4]
        return bool(escape) and (len(pattern) - len(pattern.rstrip(escape))) % 2 == 1
    return any(ends_in_escape(each) for each in tree)


@settings(max_examples=examples(4000))
@given(trees(), PROPERTIES)
@example(("compare", "<>", ("name", "a"), ("name", "a")), {"a": float("nan")})
@example(("like", True, ("name", "a"), "%_", ""), {"a": ""})
@example(("compare", "=", ("sum", "/", ("literal", -7), ("literal", 2)), ("literal", -3)), {})
def test_selector_matches_exactly_as_the_model(tree: Tree, values: dict[str, object]) -> None:
    assume(not ends_in_escape(tree))
    selector = parse_selector(text_of(tree))
    assert selector.matches(Properties(values)) is (model(tree, values) is True)
    negative = parse_selector(f"NOT ({text_of(tree)})")
    assert negative.matches(Properties(values)) is (model(tree, values) is False)


@settings(max_examples=examples(2000))
@given(st.text("a1.'\"()<>=+-*/,% \nNOTADLIKEé_!", max_size=40) | st.text(max_size=20))
def test_arbitrary_text_is_a_selector_or_refused_with_a_position(text: str) -> None:
    refused = ""
    try:
        selector = parse_selector(text)
    except InvalidField as error:
        refused = str(error)
    if refused:
        position = int(refused.split("at character ")[1].split(":")[0])
        assert 1 <= position <= len(text) + 1
    else:
        assert (selector is None) == (not text.strip())
        if selector is not None:
            selector.matches(Properties({"a": 1}))


@pytest.mark.parametrize("text", ["", "  \n\t"])
def test_empty_selector_selects_everything(text: str) -> None:
    assert parse_selector(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "a = 1 OR b = 2 AND c = 3",  # AND binds closer than OR, and NOT closer than both
        "NOT a = 2 AND a = 1",
        "a + 2 * 3 = 7",
        "a - 1 - 1 = -1",
        "8 / 2 / 2 = 2",
        "-a = -1",
        "- - a = 1",
        "a = +1",
        "a = 1L and a = 0x1 and a = 01 and a = 1. and a = 10.e-1 and a = 1f and a = 1D and a = .1E+1",
        "0x1e+1 = 31 AND 017 = 15",
        "-9223372036854775808 < 0",
        "a in ('1') or a between 0 and 1",
        "(a) = (1)",
        "(a = 1) = TRUE",
        "t",
        "NOT (NOT t)",
        "t = true and t <> FALSE",
        '"a" = 1',
        "text like 'it''s %' and text = 'it''s me'",
        "text LIKE 'it!_s me' ESCAPE '!' OR text LIKE 'it_s me'",
        "nothing IS NULL AND a IS NOT NULL",
        "text not between 1 and 2",
        "andy = 'a' AND not_b IS NULL",
    ],
)
def test_selector_that_matches(text: str) -> None:
    assert matches(text, a=1, t=True, text="it's me", andy="a")


@pytest.mark.parametrize(
    "text",
    [
        "nothing = 1",  # a comparison with nothing is unknown, and so is its negation
        "NOT nothing = 1",
        "nothing <> 1",
        "nothing IN ('a')",
        "nothing NOT IN ('a')",
        "nothing NOT LIKE '%'",
        "nothing NOT BETWEEN 1 AND 2",
        "nothing",
        "nothing + 1 > 0 OR NOT nothing + 1 > 0",
        "a / 0 = 0 OR a / 0 <> 0",
        "9223372036854775807 + a = 0 OR NOT 9223372036854775807 + a = 0",
        "-1 * (-9223372036854775807 - 1) = 0 OR NOT -1 * (-9223372036854775807 - 1) = 0",
        "text + 1 = 1 OR text + 1 <> 1",
        "text = 1",  # values of different types
        "text > 0",
        "t = 1",
        "a = TRUE",
        "text = text AND octets = 'x'",
        "octets IS NULL",
        "a LIKE '1'",
        "a",
        "text LIKE 'it_s'",
        "text LIKE '_'",
        "text LIKE ''",
        "text IN ('it', 's')",
    ],
)
def test_selector_that_does_not_match(text: str) -> None:
    assert not matches(text, a=1, t=True, text="it's me", octets=b"x")


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("a == 1", 4, "found '=' where a name or a value was expected"),
        ("a != 1", 3, "'!=' is not an operator; use '<>'"),
        ("a = ", 5, "found the end where a name or a value was expected"),
        ("a = 'x", 5, "the closing ' is missing"),
        ('"" = 1', 1, "a name in double quotes must not be empty"),
        ("a = 1 b", 7, "found 'b' after the end of the condition"),
        ("a = 1)", 6, "found ')' after the end of the condition"),
        ("(a = 1", 7, "found the end where ')' was expected"),
        ("a = 1 AND", 10, "found the end where a name or a value was expected"),
        ("1", 1, "a selector needs a condition, and found a number"),
        ("'x'", 1, "a selector needs a condition, and found a string"),
        ("a + 1", 1, "a selector needs a condition, and found a number"),
        ("a = 1 AND 'x'", 11, "AND needs a condition, and found a string"),
        ("1 OR a", 1, "OR needs a condition, and found a number"),
        ("NOT 1", 5, "NOT needs a condition, and found a number"),
        ("a < 'x'", 5, "< needs numbers, and found a string"),
        ("a > TRUE", 5, "> needs numbers, and found a condition"),
        ("'x' + 1 = 1", 1, "'+' needs numbers, and found a string"),
        ("-'x' = 1", 2, "'-' needs numbers, and found a string"),
        ("1 = 'x'", 3, "'=' compares a number with a string, which is never true"),
        ("a BETWEEN 'x' AND 'y'", 11, "BETWEEN needs numbers, and found a string"),
        ("a BETWEEN 1 OR 2", 13, "found 'OR' where AND was expected"),
        ("a IN ()", 7, "found ')' where a string was expected"),
        ("a IN (1)", 7, "found '1' where a string was expected"),
        ("a IN 'x'", 6, "found the string 'x' where '(' was expected"),
        ("1 IN ('x')", 1, "IN needs a name before it"),
        ("'x' LIKE 'x'", 1, "LIKE needs a name before it"),
        ("a LIKE b", 8, "found 'b' where a string was expected"),
        ("a LIKE 'x' ESCAPE 'xy'", 19, "ESCAPE needs a single character"),
        ("a LIKE 'x!' ESCAPE '!'", 8, "the pattern ends with its escape character"),
        ("a IS 1", 6, "found '1' where NULL was expected"),
        ("a + 1 IS NULL", 1, "IS NULL needs a name before it"),
        ("a NOT = 1", 7, "found '=' where BETWEEN, IN or LIKE was expected"),
        ("a = 12x", 5, "'12x' is not a number"),
        ("a = 09", 5, "'09' is not a number"),
        ("a = 1e999", 5, "'1e999' is not a number, or too large for one of 64 bits"),
        ("a = 9223372036854775808", 5, "'9223372036854775808' has more than 64 bits"),
        ("a = 99999999999999999999", 5, "'99999999999999999999' has more than 64 bits"),
        ("a # 1", 3, "'#' is not part of any selector"),
        ("JMSReplyTo = 'q'", 1, "'JMSReplyTo' may not be in a selector"),
        ("amqp.delivery_count = 1", 1, "'amqp.delivery_count' is no field of a message that selectors know"),
        ("TRUE = NULL", 8, "found 'NULL' where a name or a value was expected"),
    ],
)
def test_invalid_selector_is_refused_with_its_position(text: str, position: int, reason: str) -> None:
    with pytest.raises(InvalidField) as error:
        parse_selector(text)
    assert str(error.value) == f"the selector is not valid at character {position}: {reason}"


def test_selector_above_a_bound_is_refused() -> None:
    assert matches("t" + " " * (LENGTH_MAX - 1), t=True)
    with pytest.raises(InvalidField, match=r"has 8,193 characters; the most is 8,192"):
        parse_selector("t" * (LENGTH_MAX + 1))
    assert matches("(" * DEPTH_MAX + "t" + ")" * DEPTH_MAX, t=True)
    for opening in ("(", "NOT ", "- "):
        with pytest.raises(InvalidField, match=rf"character {32 * len(opening) + 1}: more than 32 parentheses"):
            parse_selector(opening * (DEPTH_MAX + 1) + "t")
    assert matches(" OR ".join(["t"] * (NODES_MAX // 2)), t=True)
    with pytest.raises(InvalidField, match="more than 1,024 operands"):
        parse_selector(" OR ".join(["t"] * (NODES_MAX // 2 + 1)))
    with pytest.raises(InvalidField, match="more than 1,024 operands"):
        parse_selector("a IN (" + ",".join(["'x'"] * NODES_MAX) + ")")
    with pytest.raises(InvalidField, match=r"a pattern of 257 characters; the most is 256"):
        parse_selector("a LIKE '" + "x" * (PATTERN_MAX + 1) + "'")


def test_decided_condition_asks_for_no_further_property() -> None:
    message = Properties({"a": 1})
    selector = parse_selector("a = 1 OR b = 1 OR c = 1")
    assert selector.matches(message)
    assert message.lookups == 1
    selector = parse_selector("a = 2 AND b = 1 AND c = 1")
    assert not selector.matches(message)
    assert message.lookups == 2


def test_work_of_an_evaluation_grows_with_its_nodes() -> None:
    def work(text: str) -> int:
        selector = parse_selector(text)
        return int(selector.work)

    assert work("a = 1") == 0
    assert work(" AND ".join(["a = 1"] * 100)) == 399 // 8
    assert work("a LIKE '%x%'") == LIKE_WORK


@given(TEXTS, TEXTS)
def test_string_literal_is_the_text_with_doubled_quotes(one: str, other: str) -> None:
    literal = "'" + one.replace("'", "''") + "'"
    assert matches(f"a = {literal}", a=other) == (one == other)


def test_field_has_the_code_of_its_name() -> None:
    assert Field("JMSType").code == Field("amqp.subject").code != Field("subject").code
