import argparse
import os
from dataclasses import dataclass
from typing import Literal

import pytest

from hda.cli import options
from hda.errors import SettingError, UserError
from hda.settings import options as options_of
from hda.settings import setting


@dataclass(frozen=True)
class Sample:
    """One of each kind."""

    step_count: int = setting(3, "how many")
    weight: float = setting(0.00001, "50 % or so")
    colour: Literal["red", "green"] | None = setting(None, "which (auto: the picture's); never blue")
    quick: bool | None = setting(None, "whether")
    graph: bool = setting(True, "a switch")


@pytest.fixture
def parser():
    parser = argparse.ArgumentParser(
        allow_abbrev=False, formatter_class=lambda prog: argparse.HelpFormatter(prog, 2, 60)
    )
    options.add(parser, options_of(Sample))
    return parser


@pytest.fixture
def parse(parser):
    return lambda line: vars(parser.parse_args(line.split()))


def test_what_is_not_given_is_absent(parse):
    assert parse("") == {}


def test_what_is_given_has_its_setting_s_type(parse):
    assert parse("--step-count 5 --weight 2 --colour red") == {"step_count": 5, "weight": 2.0, "colour": "red"}
    assert parse("--colour auto") == {"colour": None}


def test_switches_have_a_no(parse):
    assert parse("--quick --no-graph") == {"quick": True, "graph": False}
    assert parse("--no-quick --graph") == {"quick": False, "graph": True}


def test_a_wrong_value_names_the_setting(parse):
    with pytest.raises(SettingError, match="takes a whole number: got 'x'") as caught:
        parse("--step-count x")
    assert options.flag(caught.value.name) == "--step-count"


def test_help_tells_kind_sentence_and_default(parser):
    lines = " ".join(parser.format_help().split())
    assert "--step-count N how many (default: 3)" in lines
    assert "--weight X 50 % or so (default: 1e-05)" in lines
    assert "--colour red|green which (default: auto, the picture's); never blue" in lines
    assert "--quick, --no-quick whether (default: auto)" in lines
    assert "--graph, --no-graph a switch (default: on)" in lines


def test_a_new_file_has_a_folder_and_is_not_there_yet(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(options.new_file("--out", "found.csv")) == "found.csv"
    assert not (tmp_path / "found.csv").exists()
    (tmp_path / "old.csv").write_text("kept")
    for given, sentence in (
        ("old.csv", "old.csv exists: give another --out or remove it first"),
        ("gone/a.csv", "the folder gone of --out gone/a.csv does not exist: make it first"),
        ("old.csv/a.csv", "the folder old.csv of --out old.csv/a.csv does not exist: make it first"),
    ):
        with pytest.raises(UserError) as caught:
            options.new_file("--out", given)
        assert str(caught.value) == sentence


def test_a_new_file_may_have_to_end_in_something(tmp_path):
    assert options.new_file("--picture", str(tmp_path / "a.PNG"), ".png").name == "a.PNG"
    with pytest.raises(UserError, match=r"does not end in \.png"):
        options.new_file("--picture", str(tmp_path / "a.jpg"), ".png")


def test_a_new_file_needs_a_folder_that_is_open(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(tmp_path))
    with pytest.raises(UserError, match="is closed to you: give another --out"):
        options.new_file("--out", str(tmp_path / "a.csv"))


def test_a_root_is_for_lists_alone():
    options.check_root(None, "folder")
    options.check_root("somewhere", "labels.txt")
    with pytest.raises(UserError, match="--root somewhere is for the paths in a list, and folder is none"):
        options.check_root("somewhere", "folder")
