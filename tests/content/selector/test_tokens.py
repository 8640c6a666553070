"""Tokens of selectors."""

from __future__ import annotations

from penstock.content.selector.tokens import END, KEYWORD, NAME, NUMBER, STRING, SYMBOL, shown, tokens_of


def test_tokens_have_kinds_texts_and_positions() -> None:
    tokens = tokens_of("Not (a$.b>=.5e-1) aNd 'it''s'<>\"x y\"")
    assert [(int(each.kind), each.text, int(each.position)) for each in tokens] == [
        (KEYWORD, "NOT", 0),
        (SYMBOL, "(", 4),
        (NAME, "a$.b", 5),
        (SYMBOL, ">=", 9),
        (NUMBER, ".5e-1", 11),
        (SYMBOL, ")", 16),
        (KEYWORD, "AND", 18),
        (STRING, "it's", 22),
        (SYMBOL, "<>", 29),
        (NAME, "x y", 31),
        (END, "", 36),
    ]
    assert tokens[4].number == 0.05


def test_long_token_is_cut_in_texts() -> None:
    assert shown(tokens_of("x" * 100)[0]) == "'" + "x" * 40 + "'"
