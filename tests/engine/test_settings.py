import json

import pytest

from hda.batch import Layout
from hda.engine.settings import FitSettings, Settings
from hda.errors import UserError
from hda.methods.hdan import HDAN
from hda.recipes.adamw import AdamW
from hda.recipes.sgd import SGD
from hda.registry import registered


def test_each_option_goes_to_whom_it_belongs():
    settings = Settings.given(seed=3, batch="12", heuristics=2, lr="0.01", compile="auto", graph="no", resident=1)
    assert settings.fit == FitSettings(seed=3, batch=12, compile=None, graph=False, resident=1.0)
    assert settings.method == {**Settings.given().method, "heuristics": 2}
    assert settings.recipe == {**Settings.given().recipe, "lr": 0.01}


@pytest.mark.parametrize("recipe", sorted(registered("recipes")))
@pytest.mark.parametrize("method", sorted(registered("methods")))
def test_settings_come_back_from_their_plain_data(method, recipe):
    settings = Settings.given(method=method, recipe=recipe, seed=5, precision="bf16", lr=0.1 + 0.2)
    assert Settings.from_dict(json.loads(json.dumps(settings.as_dict()))) == settings
    assert Settings.given(**settings.flat()) == settings


@pytest.mark.parametrize("method", sorted(registered("methods")))
@pytest.mark.parametrize("recipe", sorted(registered("recipes")))
def test_no_two_settings_have_one_name(method, recipe):
    settings = Settings.given(method=method, recipe=recipe)
    parts = settings.as_dict()
    assert len(settings.flat()) == sum(len(part) for part in parts.values())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"heuristic": 2}, "unknown setting 'heuristic': did you mean 'heuristics'"),
        ({"generator_steps": 2}, "unknown setting 'generator_steps'"),  # another method's
        ({"warmup": 0.1}, "unknown setting 'warmup'"),  # another recipe's
        ({"method": "hdn"}, "unknown method 'hdn': did you mean 'hdan'"),
        ({"recipe": "sdg"}, "unknown recipe 'sdg': did you mean 'sgd'"),
        ({"mixing": "balance"}, "unknown mixing 'balance': did you mean 'balanced'"),
        ({"precision": "fp16"}, "unknown precision 'fp16'"),
        ({"termination_norm": "l3"}, "unknown termination norm 'l3': did you mean 'l2' or 'l1'"),
        ({"steps": 1.5}, "steps takes a whole number: got 1.5"),
        ({"steps": "many"}, "steps takes a whole number: got 'many'"),
        ({"seed": None}, "seed needs a value: give a whole number"),
        ({"seed": -1}, "seed must be "),
        ({"seed": 2**63}, "seed must be "),
        ({"batch": 0}, "batch must be at least 1: got 0"),
        ({"log_every": 0}, "log_every must be at least 1: got 0"),
        ({"evaluate_every": 0}, "evaluate_every must be at least 1: got 0"),
        ({"checkpoint_every": -5}, "checkpoint_every must be at least 1: got -5"),
        ({"resident": -0.5}, "resident must be at least 0: got -0.5"),
        ({"heuristics": -1}, "heuristics must be at least 0: got -1"),
        ({"graph": "perhaps"}, "graph is on or off: got 'perhaps'"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(options, sentence):
    with pytest.raises(UserError) as caught:
        Settings.given(**options)
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("recipe", "setting", "steps", "batch"),
    [("sgd", "uda", 6002, 36), ("sgd", "msda", 50004, 16), ("sgd", "ssda", 20004, 24), ("adamw", "uda", 6002, 36)],
)
def test_what_is_not_given_is_the_recipe_s_for_the_setting(recipe, setting, steps, batch, task):
    scenario, _ = task(setting)
    fit = Settings.given(recipe=recipe).resolve(scenario).fit
    assert (fit.steps, fit.batch, fit.target_batch) == (steps, batch, batch)


def test_what_is_given_stays(task):
    scenario, _ = task()
    fit = Settings.given(steps=7, batch=5).resolve(scenario).fit
    assert (fit.steps, fit.batch, fit.target_batch) == (7, 5, 5)
    fit = Settings.given(steps=7, batch=5, target_batch=3).resolve(scenario).fit
    assert (fit.steps, fit.batch, fit.target_batch) == (7, 5, 3)
    settings = Settings.given(steps=7, batch=5, heuristics=2)
    assert settings.resolve(scenario).resolve(scenario) == settings.resolve(scenario)
    assert settings.resolve(scenario).method == settings.method


@pytest.mark.parametrize(
    ("setting", "method", "layout"),
    [
        ("uda", "hdan", Layout(6, 0, 4)),
        ("msda", "hdan", Layout(12, 0, 4)),  # two sources of six each
        ("ssda", "hdan", Layout(6, 6, 4)),
        ("uda", "source-only", Layout(6, 0, 0)),  # never looks at the target
        ("ssda", "source-only", Layout(6, 6, 0)),
    ],
)
def test_the_layout_has_rows_for_each_source_the_labelled_target_and_the_target(setting, method, layout, task):
    assert Settings.given(method=method, batch=6, target_batch=4).layout(task(setting)[0]) == layout


def test_the_classes_are_the_chosen_ones():
    assert Settings.given().method_class is HDAN
    assert type(Settings.given(lr=0.5).build_recipe("uda")) is SGD
    recipe = Settings.given(recipe="adamw", lr=0.5, warmup=0.2).build_recipe("msda")
    assert type(recipe) is AdamW
    assert (recipe.lr, recipe.settings.warmup) == (0.5, 0.2)
