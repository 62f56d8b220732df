"""Queries in words pick the cells that their Python twins pick."""

from dataclasses import replace

import pytest

import congenial as cg
from congenial.spec.dimension_levels_and_public_lists import Levels
from congenial.spec.entries_and_sentences import Reader, sentence

AGES = ("0-17", "18-64", "65+")
VOTING = ("18-64", "65+")
SEX = Levels("sex", "SEX", ("female", "male"), ("1", "2"))
AGE = Levels("age", "age", AGES, AGES, groups={"voting": VOTING, "minors": ("0-17",)})
JOB = Levels(
    "main job", "job", ("trade, hotels and by-work", "none", "female"), ("a", "b", "c"), groups={"voting": ("none",)}
)
READER = Reader((SEX, AGE), cg.Schema({"sex": SEX.labels, "age": AGES}))

TWINS = {
    "cells": cg.cells(),
    "cells of voting": cg.cells({"age": VOTING}),
    "total": cg.total(),
    "total of all": cg.total(),
    "total of voting": cg.total({"age": VOTING}),
    "total of age voting": cg.total({"age": VOTING}),
    "total of age=voting": cg.total({"age": VOTING}),
    "total of age = voting": cg.total({"age": VOTING}),
    "total of female": cg.total({"sex": ("female",)}),
    "total of sex female": cg.total({"sex": ("female",)}),
    "total of female and voting": cg.total({"sex": ("female",), "age": VOTING}),
    "total of 65+, 0-17, and male": cg.total({"age": ("0-17", "65+"), "sex": ("male",)}),
    "total of voting by sex": cg.margin("sex", where={"age": VOTING}),
    "total by sex and age": cg.margin("sex", "age"),
    "margin of age, sex": cg.margin("age", "sex"),
    "  total   of   voting   by   sex ": cg.margin("sex", where={"age": VOTING}),
}


@pytest.mark.parametrize("words", TWINS)
def test_words_mean_what_python_means(words: str) -> None:
    found = READER.measured(words)
    assert replace(found, name=None) == TWINS[words]
    assert found.name in {None, " ".join(words.split())}  # a group's name is kept for readers


def test_labels_may_hold_the_words_of_the_grammar() -> None:
    said = sentence("total of main job trade, hotels and by-work and sex male by age", [SEX, AGE, JOB])
    assert said.where == {"main job": JOB.labels[:1], "sex": ("male",)}
    assert said.by == ("age",)
    assert sentence("total of none by sex", [SEX, AGE, JOB]).by == ("sex",)


REFUSED = {
    "totl of voting": "did you mean 'total'",
    "sum of voting": "does not start with 'cells' or 'total' or 'margin'",
    "total voting": "after 'total' comes `of`",
    "total of votin": "did you mean 'voting'",
    "total of age votin": "'votin' is not a label or group of dimension 'age'",
    "total of voting by sx": "'sx' is not a dimension; did you mean 'sex'",
    "total of voting and femal": "did you mean 'female'",
    "total of": "after 'total' comes",
    "total of  ": "after 'total' comes",
    "margin sex": "a margin names its dimensions",
    "margin of sx": "did you mean 'sex'",
    "total of female by sex": "leave its own dimensions out",
    "margin of sex and sex": "twice",
    "cells by sex": "after 'cells' comes",
}


@pytest.mark.parametrize("words", REFUSED)
def test_words_that_mean_nothing_are_refused(words: str) -> None:
    with pytest.raises(cg.CongenialError) as caught:
        READER.measured(words)
    assert REFUSED[words] in str(caught.value)


def test_words_with_two_meanings_ask_which() -> None:
    both = Levels("shift", "shift", ("day", "all"))
    with pytest.raises(cg.CongenialError, match="write `shift all`"):
        sentence("total of all", [SEX, both])
    assert sentence("total of shift all", [SEX, both]).where == {"shift": ("all",)}
    with pytest.raises(cg.CongenialError, match="write `age voting` or `main job voting`"):
        sentence("total of voting", [SEX, AGE, JOB])
    with pytest.raises(cg.CongenialError, match="several things"):
        sentence("total of female", [SEX, AGE, JOB])
