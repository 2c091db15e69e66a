import json
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pytest

from hda.batch import Layout
from hda.data.images import from_arrays
from hda.data.scenario import Scenario
from hda.engine.settings import FitSettings, Settings
from hda.errors import UserError
from hda.recipes.adamw import AdamW
from hda.registry import registered
from hda.settings import as_dict, at_least, build, options, setting


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One of each kind."""

    flag: bool = setting(True, "a switch")
    count: int = setting(3, "how many")
    weight: float = setting(0.5, "how heavy")
    word: str = setting("red", "any word")
    colour: Literal["red", "green", "none"] = setting("green", "which colour")
    limit: int | None = setting(None, "at most")
    share: float | None = setting(0.1, "how much")
    shape: Literal["round", "square"] | None = setting(None, "which shape")
    quick: bool | None = setting(None, "whether")


def sentence(make, *args, **options) -> str:
    with pytest.raises(UserError) as caught:
        make(*args, **options)
    return str(caught.value)


# One setting


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("flag", True, True),
        *(("flag", word, True) for word in ("true", "True", "YES", "on", "1", 1)),
        *(("flag", word, False) for word in ("false", "No", "OFF", "0", 0, False)),
        ("count", "12", 12),
        ("count", 12, 12),
        ("count", 12.0, 12),
        ("count", "-3", -3),
        ("weight", "1e-3", 0.001),
        ("weight", 2, 2.0),
        ("weight", "2", 2.0),
        ("word", "blue", "blue"),
        ("word", "none", "none"),
        ("word", "auto", "auto"),
        ("colour", "red", "red"),
        ("colour", "none", "none"),
        ("limit", "7", 7),
        ("limit", None, None),
        ("limit", "none", None),
        ("limit", "auto", None),
        ("share", "0.25", 0.25),
        ("share", "auto", None),
        ("shape", "square", "square"),
        ("shape", "auto", None),
        ("quick", "auto", None),
        ("quick", "off", False),
    ],
)
def test_a_value_is_read_in_its_setting_s_own_type(name, given, expected):
    value = getattr(build(Sample, {name: given}), name)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("flag", "maybe", "flag is on or off: got 'maybe', give true or false"),
        ("flag", 2, "flag is on or off: got 2, give true or false"),
        ("quick", "perhaps", "quick is on or off: got 'perhaps', give true or false"),
        ("count", "many", "count takes a whole number: got 'many'"),
        ("count", "1.5", "count takes a whole number: got '1.5'"),
        ("count", 1.5, "count takes a whole number: got 1.5"),
        ("count", float("inf"), "count takes a whole number: got inf"),
        ("count", [3], "count takes a whole number: got [3]"),
        ("count", "", "count takes a whole number: got ''"),
        ("count", "auto", "count takes a whole number: got 'auto'"),
        ("weight", "heavy", "weight takes a number: got 'heavy'"),
        ("limit", "x", "limit takes a whole number: got 'x'"),
        ("flag", None, "flag needs a value: give true or false"),
        ("count", None, "count needs a value: give a whole number"),
        ("weight", None, "weight needs a value: give a number"),
        ("word", None, "word needs a value: give a word"),
        ("colour", "grene", "unknown colour 'grene': did you mean 'green' or 'red'? (known: green, none, red)"),
        ("shape", "round ", "unknown shape 'round ': did you mean 'round'? (known: round, square)"),
        ("colour", "auto", "unknown colour 'auto' (known: green, none, red)"),
    ],
)
def test_a_value_that_does_not_fit_is_told_in_one_sentence(name, given, expected):
    assert sentence(build, Sample, {name: given}) == expected


def test_an_unknown_setting_is_told_with_the_nearest():
    assert sentence(build, Sample, {"wieght": 1}).startswith("unknown setting 'wieght': did you mean 'weight'")
    assert sentence(build, Sample, {"count": 1, "xyz": 1}) == (
        "unknown setting 'xyz' (known: colour, count, flag, limit, quick, shape, share, weight, word)"
    )


def test_what_is_not_given_keeps_its_default():
    assert build(Sample, {}) == Sample()
    assert build(Sample, {"count": "5"}) == replace(Sample(), count=5)


def test_settings_survive_a_file():
    sample = build(Sample, {"flag": "off", "weight": "0.1", "colour": "none", "shape": "round", "share": None})
    assert build(Sample, json.loads(json.dumps(as_dict(sample)))) == sample
    assert build(Sample, json.loads(json.dumps(as_dict(Sample())))) == Sample()


def test_options_tell_name_type_default_help_and_choices_in_order():
    found = options(Sample)
    assert [option.name for option in found] == [
        "flag", "count", "weight", "word", "colour", "limit", "share", "shape", "quick",
    ]  # fmt: skip
    assert [option.kind for option in found] == [bool, int, float, str, str, int, float, str, bool]
    assert [option.optional for option in found] == [False] * 5 + [True] * 4
    assert found[4].choices == ("red", "green", "none")
    assert found[7].choices == ("round", "square")
    assert found[2].choices == ()
    assert (found[2].default, found[2].help) == (0.5, "how heavy")


def test_a_smallest_value_is_insisted_on():
    at_least(1, steps=1, batch=None, weight=2.5)
    assert sentence(at_least, 1, steps=5, batch=0) == "batch must be at least 1: got 0"
    assert sentence(at_least, 0, weight=float("nan")) == "weight must be at least 0: got nan"
    assert sentence(at_least, 0.5, weight=0.25) == "weight must be at least 0.5: got 0.25"


# The settings of a run


def scenario(sources: int = 1, labelled: bool = False) -> Scenario:
    part = from_arrays(np.zeros((4, 2, 2, 3), np.uint8), [0, 1, 0, 1], ("cat", "dog"))
    return Scenario.of([part] * sources, part.images, part if labelled else None)


def test_each_setting_goes_to_who_knows_it():
    settings = Settings.given(method="hdan", heuristics="2", momentum="0.5", steps="7", graph="off")
    assert (settings.fit.method, settings.fit.steps, settings.fit.graph) == ("hdan", 7, False)
    assert settings.method["heuristics"] == 2
    assert settings.recipe["momentum"] == 0.5
    assert settings.fit == replace(FitSettings(), steps=7, graph=False)


def test_settings_of_another_method_or_recipe_are_known_with_it_alone():
    assert Settings.given(method="mcd", generator_steps=2).method["generator_steps"] == 2
    assert sentence(Settings.given, generator_steps=2).startswith("unknown setting 'generator_steps': ")
    assert Settings.given(recipe="adamw", warmup=0.25).recipe["warmup"] == 0.25
    assert sentence(Settings.given, warmup=0.25).startswith("unknown setting 'warmup' (known: ")


def test_an_unknown_setting_method_or_recipe_is_told_with_the_nearest_of_all():
    assert "did you mean 'heuristics'" in sentence(Settings.given, heuristic=2)
    assert "did you mean 'momentum'" in sentence(Settings.given, momentun=2)
    assert "did you mean 'steps'" in sentence(Settings.given, step=2)
    assert sentence(Settings.given, method="hdam").startswith("unknown method 'hdam': did you mean 'hdan'")
    assert sentence(Settings.given, recipe="sdg").startswith("unknown recipe 'sdg': did you mean 'sgd'")
    assert sentence(Settings.given, augment="crop").startswith("unknown augment 'crop': ")


@pytest.mark.parametrize(
    "name", ["steps", "batch", "target_batch", "size", "log_every", "evaluate_every", "checkpoint_every"]
)
def test_counts_start_at_one(name):
    assert getattr(Settings.given(**{name: 1}).fit, name) == 1
    assert sentence(Settings.given, **{name: 0}) == f"{name} must be at least 1: got 0"


def test_settings_of_a_run_survive_a_file():
    settings = Settings.given(method="hdan", recipe="adamw", heuristics=1, warmup=0.1, batch=5, strides="v1.5")
    again = Settings.from_dict(json.loads(json.dumps(settings.as_dict())))
    assert again == settings
    assert settings.flat()["heuristics"] == 1
    assert settings.flat()["warmup"] == 0.1
    assert settings.flat()["batch"] == 5


def test_every_method_and_recipe_is_known_under_a_name_and_survives_a_file():
    for method in registered("methods"):
        for recipe in registered("recipes"):
            settings = Settings.given(method=method, recipe=recipe)
            assert settings.method_class.name == method
            assert Settings.from_dict(json.loads(json.dumps(settings.as_dict()))) == settings


def test_no_name_of_a_setting_means_two_things():
    of_fit = {option.name for option in options(FitSettings)}
    of_methods, of_recipes = (
        {option.name for kind in registered(room).values() for option in options(kind.Settings)}
        for room in ("methods", "recipes")
    )
    assert not of_fit & of_methods
    assert not of_fit & of_recipes
    assert not of_methods & of_recipes


def test_every_setting_has_a_sentence_of_help():
    kinds = [FitSettings, *(kind.Settings for room in ("methods", "recipes") for kind in registered(room).values())]
    for kind in kinds:
        assert all(option.help for option in options(kind)), kind


@pytest.mark.parametrize(
    ("task", "steps", "batch"),
    [(scenario(), 6002, 36), (scenario(sources=3), 50004, 16), (scenario(labelled=True), 20004, 24)],
)
def test_what_is_left_open_is_filled_in_from_the_recipe_s_budget(task, steps, batch):
    fit = Settings.given().resolve(task).fit
    assert (fit.steps, fit.batch, fit.target_batch) == (steps, batch, batch)


def test_what_is_given_is_not_filled_in():
    settings = Settings.given(steps=10, batch=4, momentum=0.5)
    resolved = settings.resolve(scenario())
    assert (resolved.fit.steps, resolved.fit.batch, resolved.fit.target_batch) == (10, 4, 4)
    assert resolved.recipe == settings.recipe
    assert replace(resolved.fit, target_batch=None, source_hold_out=None) == settings.fit
    assert Settings.given(batch=4, target_batch=9).resolve(scenario()).fit.target_batch == 9
    assert resolved.resolve(scenario()) == resolved


def test_a_recipe_is_built_with_its_settings():
    recipe = Settings.given(recipe="adamw", lr="0.5", warmup=0.25).build_recipe("uda")
    assert type(recipe) is AdamW
    assert (recipe.lr, recipe.settings.warmup) == (0.5, 0.25)
    assert Settings.given().build_recipe("msda").lr == 0.0003


def test_a_batch_has_rows_of_every_domain():
    settings = Settings.given(batch=4, target_batch=6)
    assert settings.layout(scenario()) == Layout(4, 0, 6)
    assert settings.layout(scenario(sources=3)) == Layout(12, 0, 6)
    assert settings.layout(scenario(labelled=True)) == Layout(4, 4, 6)
    assert settings.layout(scenario(sources=2, labelled=True)) == Layout(8, 4, 6)
    assert Settings.given().layout(scenario()) == Layout(36, 0, 36)


def test_a_method_that_never_looks_at_the_target_has_no_rows_of_it():
    settings = Settings.given(method="source-only", batch=4, target_batch=6)
    assert settings.layout(scenario(labelled=True)) == Layout(4, 4, 0)
