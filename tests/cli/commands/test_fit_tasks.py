"""`hda fit` with a dataset's task, with shots, with several sources taken for one, and with test parts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import hda as package
from hda.data.datasets.base import Domain
from hda.data.datasets.domainnet import DomainNet

QUICK = (
    *("--backbone", "small", "--weights", "none", "--size", "16", "--device", "cpu", "--steps", "2", "--batch", "4"),
    *("--precision", "fp32"),
)
CLASSES = ("Alarm_Clock", "Backpack", "TV")


def paint(path: Path, random: np.random.Generator) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = random.integers(0, 80, (16, 16, 3))
    pixels[..., len(path.parent.name) % 3] += 150
    Image.fromarray(pixels.astype(np.uint8)).save(path)


@pytest.fixture(scope="session")
def painted(tmp_path_factory):
    root, random = tmp_path_factory.mktemp("home"), np.random.default_rng(0)
    for domain in ("Art", "Clipart", "Real World"):
        for name in CLASSES:
            for number in range(1, 6):
                paint(root / domain / name / f"{number:05d}.png", random)
    lists = {"labeled_target_images_Clipart_3": (1, 2, 3), "unlabeled_target_images_Clipart_3": (4, 5)}
    lists |= {"labeled_target_images_Clipart_1": (5,), "unlabeled_target_images_Clipart_1": (1, 2, 3, 4)}
    (root / "ssda").mkdir()
    for name, which in lists.items():
        lines = [f"Clipart/{c}/{i:05d}.jpg {9 - n}\n" for n, c in enumerate(CLASSES) for i in which]
        (root / "ssda" / f"{name}.txt").write_text("".join(lines))
    return root


@pytest.fixture
def home(painted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HDA_CACHE", str(tmp_path / "cache"))
    return painted


def result(run="run"):
    return json.loads(Path(run, "result.json").read_text())


def test_a_task_with_published_shots(hda, home):
    told = hda(
        "fit", "--task", "office-home:Art->Clipart", "--data", home, "--shots", 3, *QUICK, "--out", "run", "--json"
    )
    assert told.json["images"] == {"source": 15, "labelled": 9, "target": 6}
    assert told.json["domains"] == 3
    assert told.json["common_images"] == 3
    right = {
        row.split(",")[0]
        for row in Path("run/predictions.csv").read_text().splitlines()[1:]
        if row.split("/")[0] in row.split(",")[1]
    }
    assert told.json["target_accuracy"] == pytest.approx(100 * len(right) / 6)
    assert told.json["common_accuracy"] == pytest.approx(100 * len([r for r in right if r.endswith("4.png")]) / 3)
    assert f"{told.json['common_accuracy']:.2f} % of the 3 pictures that are tested on whatever the number" in told.out
    notes = result()["notes"]
    assert "the lists' class numbers are not in the order of the names: classes are matched by name" in notes
    assert all(note in told.out for note in notes)


def test_a_stopped_task_goes_on_and_says_the_same(hda, home):
    words = ("fit", "--task", "office-home:A->C", "--data", home, "--shots", 2, *QUICK, "--out", "run", "--json")
    first = hda(*words).json
    Path("run/result.json").unlink()
    again = hda("fit", "--resume", "--out", "run", "--json").json
    same = ("target_accuracy", "images", "domains")
    assert [first[name] for name in same] == [again[name] for name in same]
    assert again["resumed_from"] == 2
    origin = json.loads(Path("run/settings.json").read_text())["origin"]
    assert (origin["task"], origin["shots"]) == ("office-home:A->C", 2)


@pytest.mark.parametrize(
    ("more", "domains", "sources"), [((), 3, "Art,Real World"), (("--combine",), 2, "Art+Real World")]
)
def test_all_other_domains_are_sources(hda, home, more, domains, sources):
    told = hda("fit", "--task", "office-home:*->Clipart", "--data", home, *more, *QUICK, "--out", "run", "--json")
    assert told.json["images"] == {"source": 30, "labelled": 0, "target": 15}
    assert told.json["domains"] == domains
    assert result()["task"] == f"{sources}->Clipart"
    assert 0 <= told.json["target_accuracy"] <= 100


def test_plain_folders_with_shots_and_several_sources(hda, home):
    folders = ("--source", home / "Art", home / "Real World", "--target", home / "Clipart", "--shots", 2)
    told = hda("fit", *folders, "--evaluate", *QUICK, "--out", "run", "--json")
    assert told.json["images"] == {"source": 30, "labelled": 6, "target": 9}
    assert told.json["domains"] == 4
    assert "6 pictures of the target Clipart, 2 of each class, are drawn with seed 0 and labelled" in told.out
    combined = hda("fit", *folders, "--combine", *QUICK, "--out", "combined", "--json")
    assert combined.json["images"] == told.json["images"]
    assert (combined.json["domains"], combined.json["target_accuracy"]) == (3, None)


def test_the_labels_of_the_unlabelled_target_reach_no_weight(home):
    scenario, answers = package.task("office-home:Art->Clipart", home, shots=3)
    settings = dict(zip([word[2:] for word in QUICK[::2]], QUICK[1::2], strict=True))
    poisoned = replace(answers, labels=(answers.labels + 1) % 3)
    for name, truth in (("true", answers), ("poisoned", poisoned), ("none", None)):
        package.fit(scenario, evaluate=truth, out=name, **settings)
    for file in ("model.safetensors", "predictions.csv"):
        assert Path("true", file).read_bytes() == Path("poisoned", file).read_bytes() == Path("none", file).read_bytes()
    labels = [row.split(",")[1] for row in Path("true", "predictions.csv").read_text().splitlines()[1:]]
    for name, truth in (("true", answers), ("poisoned", poisoned)):  # the poison is where it is measured
        right = sum(scenario.classes[label] == found for label, found in zip(truth.labels, labels, strict=True))
        assert result(name)["target_accuracy"] == pytest.approx(100 * right / 6)


def test_a_test_part_is_measured_on_and_predicted_apart(hda, home, tmp_path, monkeypatch):
    parts = [Domain(name, name[0], train=6, test=3) for name in ("Clipart", "Sketch")]
    monkeypatch.setattr(DomainNet, "domains", tuple(parts))
    random = np.random.default_rng(1)
    for domain in ("clipart", "sketch"):
        for part, numbers in (("train", (1, 2)), ("test", (3,))):
            names = [f"{domain}/{name}/{number}.png" for name in ("ant", "axe", "bee") for number in numbers]
            for name in names:
                paint(tmp_path / "net" / name, random)
            (tmp_path / "net" / f"{domain}_{part}.txt").write_text("".join(f"{name} 0\n" for name in names))
    told = hda("fit", "--task", "domainnet:C->S", "--data", "net", *QUICK, "--out", "run", "--json")
    assert told.json["images"] == {"source": 6, "labelled": 0, "target": 6, "test": 3}
    trained, tested = (
        Path("run", f"{name}.csv").read_text().splitlines()[1:] for name in ("predictions", "test-predictions")
    )
    assert [row.split(",")[0] for row in tested] == ["ant/3.png", "axe/3.png", "bee/3.png"]
    assert {row.split(",")[0][-5] for row in trained} == {"1", "2"}
    right = sum(row.split("/")[0] == row.split(",")[1] for row in tested)
    assert told.json["target_accuracy"] == pytest.approx(100 * right / 3)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("--task", "office-home:A->C"),
            "--task office-home:A->C needs the folder that its dataset lies in: add --data DIR",
        ),
        (
            ("--task", "office-home:A->C", "--data", "HOME", "--source", "HOME"),
            "--task names the pictures and so does --source",
        ),
        (
            ("--source", "HOME", "--target", "HOME", "--data", "HOME"),
            "--data goes with a dataset's task: add --task NAME",
        ),
        (
            ("--task", "office-home:A->P", "--data", "HOME"),
            "has no Product of Office-Home: put its folder there as 'Product'",
        ),
        (("--task", "office-home:A->C", "--data", "HOME", "--shots", "0"), "--shots must be at least 1: got 0"),
        (("--task", "office-home:A->C", "--data", "HOME", "--shots", "few"), "--shots takes a whole number: got 'few'"),
        (("--task", "office-home:A->C", "--data", "HOME", "--split", "drawn"), "add --shots N or leave it out"),
        (("--task", "office-home:Art-", "--data", "HOME"), "since a shell takes an unquoted > for itself"),
        (("--source", "HOME/Art", "--target", "HOME/Clipart", "--strict"), "add --evaluate"),
        (
            ("--source", "HOME/Art", "--target", "HOME/Clipart", "--shots", "9"),
            "9 shots of each class are all 15 pictures",
        ),
        (
            ("--source", "HOME/Art", "--target", "HOME/Clipart/TV", "--shots", "1"),
            "has no class folders to draw 1 shot from",
        ),
        (
            ("--source", "HOME/Art", "--target", "HOME/Clipart", "--shots", "1", "--labelled", "HOME/Real World"),
            "is the labelled target and 1 shot to be drawn are asked for: give one of the two",
        ),
    ],
)
def test_mistakes_are_told_in_a_sentence_and_nothing_is_written(hda, home, tmp_path, words, sentence):
    told = hda("fit", *(word.replace("HOME", str(home)) for word in words), *QUICK, "--out", "run")
    assert sentence in told.sentence
    assert not Path("run").exists()
