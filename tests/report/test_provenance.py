import shlex

import pytest

from hda.cli.main import main
from hda.report import provenance


def test_the_command_says_what_is_not_default_and_hides_this_machine(make_run):
    run = make_run("hdan", 2)
    words = shlex.split(provenance.command(run))
    assert words[:4] == ["hda", "fit", "--source", f"{run.path.parent.name}/typed"]
    assert str(run.path.parent) not in provenance.command(run)
    given = dict(zip(words[4::2], words[5::2], strict=True))
    assert given["--seed"] == "2"
    assert given["--steps"] == "60"
    assert "--heuristics" not in given  # 3 is the default
    assert "--batch" not in given


def test_settings_that_are_off_and_paths_in_lists(make_run):
    run = make_run("hdan", 0)
    run.description["settings"]["fit"]["graph"] = False
    run.description["settings"]["method"]["heuristics"] = 5
    run.description["origin"] = {"source": ["/x/a b", "/x/c"], "target": "/x/t", "evaluate": True, "root": None}
    words = shlex.split(provenance.command(run))
    assert words[2:8] == ["--source", "x/a b", "x/c", "--target", "x/t", "--evaluate"]
    assert "--no-graph" in words
    assert words[words.index("--heuristics") + 1] == "5"


@pytest.mark.parametrize(
    ("fit", "named"),
    [
        ({"target_batch": 16, "source_hold_out": 0.0}, []),
        ({"target_batch": 8, "source_hold_out": 0.1}, ["--target-batch", "8", "--source-hold-out", "0.1"]),
        ({"target_batch": 16, "source_hold_out": 0.1, "select": "dev"}, ["--select", "dev"]),
        ({"source_hold_out": 0.2, "select": "dev"}, ["--select", "dev", "--source-hold-out", "0.2"]),
    ],
)
def test_what_follows_from_other_settings_is_named_only_where_it_was_given(make_run, fit, named):
    run = make_run("hdan", 0)
    run.description["settings"]["fit"] |= {"batch": 16, **fit}
    words = shlex.split(provenance.command(run))
    after = words[words.index("--batch") + 2 :]
    assert after[: after.index("--lr")] == named


def test_the_command_is_one_that_hda_understands(make_run, tmp_path, monkeypatch, capsys):
    """It comes as far as looking for the pictures."""
    run = make_run("hdan", 0)
    run.description["origin"] = {"source": ["gone"], "target": "gone-too", "evaluate": True}
    run.description["settings"]["fit"] |= {"graph": False, "weights": "none"}
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(provenance.command(run))[1:]) == 2
    assert "gone" in capsys.readouterr().err


@pytest.mark.parametrize("finished", [True, False])
def test_facts(make_run, finished):
    facts = dict(provenance.facts(make_run(finished=finished)))
    assert facts["hda"] == "0.1.0"
    assert facts["fingerprint of the pictures"] == "0" * 16
    assert ("device" in facts) is finished
