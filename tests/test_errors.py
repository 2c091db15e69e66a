import pytest

from hda.errors import UserError, unknown
from hda.recipes.adamw import AdamW
from hda.recipes.base import Recipe
from hda.recipes.sgd import SGD
from hda.registry import lookup, registered


def test_an_unknown_value_is_told_with_the_nearest_and_all_known_ones():
    error = unknown("method", "hdam", ["mcd", "hdan"])
    assert isinstance(error, UserError)
    assert str(error) == "unknown method 'hdam': did you mean 'hdan'? (known: hdan, mcd)"


def test_two_near_ones_are_both_named_the_nearer_first():
    error = unknown("setting", "target_batch_", ["batch", "target_batch", "target_bunch"])
    assert str(error) == (
        "unknown setting 'target_batch_': did you mean 'target_batch' or 'target_bunch'? "
        "(known: batch, target_batch, target_bunch)"
    )


def test_nothing_is_suggested_where_nothing_is_near():
    assert str(unknown("recipe", "xyz", ("sgd", "adamw"))) == "unknown recipe 'xyz' (known: adamw, sgd)"


def test_what_is_not_a_word_is_told_as_one():
    assert str(unknown("strides", 1.5, {"v1", "v1.5"})).startswith("unknown strides '1.5': did you mean 'v1.5'")


def test_a_recipe_is_found_by_being_in_its_package():
    found = registered("recipes")
    assert found["sgd"] is SGD
    assert found["adamw"] is AdamW
    assert Recipe not in found.values()  # it has no name
    assert list(found) == sorted(found)
    assert lookup("recipes", "sgd") is SGD


def test_an_unknown_recipe_is_told_with_the_nearest():
    with pytest.raises(UserError, match=r"^unknown recipe 'adam': did you mean 'adamw'\? \(known: adamw, "):
        lookup("recipes", "adam")
