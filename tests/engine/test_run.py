import csv
import io
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

import hda
from hda.data.images import from_arrays, read_unlabelled
from hda.data.scenario import Answers, Scenario
from hda.engine.reporter import Reporter
from hda.engine.run import Predictions

NAMES = ("ant", "bee", "cat")


def paint(folder: Path, light: int, names: tuple[str, ...] = NAMES, count: int = 5) -> Path:
    """Class folders of pictures: each class has a colour of its own."""
    random = np.random.default_rng(light)
    for channel, name in enumerate(names):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            picture = random.integers(light, light + 40, (12, 12, 3))
            picture[..., channel % 3] += 100
            Image.fromarray(picture.astype(np.uint8)).save(folder / name / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def room(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("room")


@pytest.fixture(scope="module")
def options(short) -> dict:
    return {**short, "size": 12, "augment": "none", "method": "source-only", "steps": 30, "lr": 0.05}


@pytest.fixture(scope="module")
def finished(room, options) -> hda.Run:
    """A run on pictures that are easy to tell apart."""
    source, target = paint(room / "dark", 20), paint(room / "bright", 80)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HDA_CACHE", str(room / "cache"))
        scenario = Scenario.read(source, target)
        return hda.fit(scenario, out=room / "run", evaluate=Answers.read(target, scenario), **options)


@pytest.fixture
def copied(finished, tmp_path) -> hda.Run:
    """The same run in a folder that may be damaged."""
    return hda.Run(shutil.copytree(finished.path, tmp_path / "copied"))


# Read from its folder


def test_a_run_is_what_its_folder_says(finished):
    again = hda.Run(str(finished.path))
    assert again.classes == NAMES
    assert again.settings == finished.settings
    assert again.settings.fit.steps == 30
    assert again.result == json.loads((finished.path / "result.json").read_text())
    assert again.records == [json.loads(line) for line in (finished.path / "metrics.jsonl").read_text().splitlines()]
    accuracy = again.result["target_accuracy"]
    assert repr(again) == f"<run {finished.path}: source-only on dark->bright, {accuracy:.1f} %>"


def test_a_curve_has_the_steps_at_which_a_quantity_was_measured(finished):
    steps, values = finished.curve("total")
    assert steps.tolist() == [1, 4, 8, 12, 16, 20, 24, 28, 30]
    assert values.tolist() == [record["total"] for record in finished.records if "total" in record]
    assert finished.curve("target_accuracy")[0].tolist() == [5, 10, 15, 20, 25, 30]
    steps, values = finished.curve("nothing")
    assert (steps.shape, values.shape) == ((0,), (0,))


@pytest.mark.parametrize("content", [None, "", "{}", "[]", '{"classes": null}', "\x00\x01"])
def test_what_is_no_run_is_told(content, tmp_path):
    if content is not None:
        (tmp_path / "settings.json").write_text(content)
    with pytest.raises(hda.UserError) as caught:
        hda.Run(tmp_path)
    assert str(caught.value) == f"{tmp_path} is not a run's folder: give one that `hda fit` has written"


# Predictions


def test_the_predictions_are_those_of_the_method_by_hand(finished):
    found = finished.predict(finished.path.parent / "bright")
    method = finished.method()
    assert not method.training
    rows = []
    for path in found.paths:
        with Image.open(finished.path.parent / "bright" / path) as image:
            planes = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None]
        with torch.no_grad():
            logits = method((planes / 255 - 0.5) / 0.5)[0].double().numpy()
        rows.append(np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum())
    np.testing.assert_allclose(found.probabilities, rows, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1, rtol=1e-5)
    assert found.classes == NAMES
    assert found.labels.tolist() == np.argmax(rows, axis=1).tolist()
    assert found.paths == tuple(f"{name}/{number}.png" for name in NAMES for number in range(5))


def test_the_predictions_of_the_target_are_the_ones_that_the_run_wrote(finished, tmp_path):
    found = finished.predict(finished.path.parent / "bright")
    found.write(tmp_path / "again.csv")
    ours, theirs = ((folder / name).read_text().splitlines() for folder, name in (
        (tmp_path, "again.csv"), (finished.path, "predictions.csv")
    ))  # fmt: skip
    assert [line.split(",")[:2] for line in ours] == [line.split(",")[:2] for line in theirs]
    scenario = read_unlabelled(finished.path.parent / "bright")
    confidences = [float(line.split(",")[2]) for line in theirs[1:]]
    np.testing.assert_allclose(finished.predict(scenario).probabilities.max(axis=1), confidences, atol=2e-6)


@pytest.mark.parametrize("batch", [1, 4, 100])
def test_predictions_do_not_depend_on_the_batch_and_progress_is_told(batch, finished):
    told = []
    found = finished.predict(
        finished.path.parent / "bright", batch=batch, progress=lambda done, of: told.append((done, of))
    )
    np.testing.assert_allclose(
        found.probabilities, finished.predict(finished.path.parent / "bright").probabilities, rtol=1e-4, atol=1e-6
    )
    assert told[-1] == (15, 15)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_one_picture_a_list_and_a_set_in_memory_are_predicted_too(finished, tmp_path):
    folder = finished.path.parent / "bright"
    whole = finished.predict(folder)
    (one,) = finished.predict(folder / "bee" / "3.png")
    assert one[1:] == pytest.approx(whole[8][1:])
    (tmp_path / "some.txt").write_text("cat/1.png\nant/2.png\n")
    some = finished.predict(tmp_path / "some.txt", root=folder)
    assert dict(zip(some.paths, some.labels.tolist(), strict=True)) == {
        path: whole.labels[whole.paths.index(path)] for path in ("cat/1.png", "ant/2.png")
    }
    arrays = np.stack([np.array(Image.open(folder / path)) for path in whole.paths[:4]])
    memory = finished.predict(from_arrays(arrays, name="memory"))
    np.testing.assert_allclose(memory.probabilities, whole.probabilities[:4], rtol=1e-4, atol=1e-6)


def test_a_broken_picture_is_named_or_left_out(finished, tmp_path):
    folder = shutil.copytree(finished.path.parent / "bright", tmp_path / "some")
    (folder / "ant" / "1.png").write_bytes(b"no picture")
    with pytest.raises(hda.UserError, match=r"ant/1\.png"):
        finished.predict(folder)
    found = finished.predict(folder, skip_broken=True)
    assert len(found) == 14
    assert "ant/1.png" not in found.paths
    (broken,) = found.broken
    assert "ant/1.png" in broken


def test_predictions_are_a_sequence_that_writes_itself(tmp_path):
    values = np.array([[0.25, 0.75], [0.5, 0.5], [0.9, 0.1]], dtype=np.float32)
    found = Predictions(("a,b.png", 'c"d.png', "e.png"), values, ("one", "two, three"))
    assert len(found) == 3
    assert found[0] == ("a,b.png", "two, three", 0.75)
    assert found[1].label == "one"  # the first of equals
    assert found[-1].confidence == pytest.approx(0.9)
    assert [row.path for row in found] == ["a,b.png", 'c"d.png', "e.png"]
    assert [row.path for row in found[1:]] == ['c"d.png', "e.png"]
    with pytest.raises(IndexError):
        found[3]
    found.write(tmp_path / "found.csv")
    rows = list(csv.reader(io.StringIO((tmp_path / "found.csv").read_text())))
    assert rows == [
        ["path", "class", "confidence"],
        ["a,b.png", "two, three", "0.750000"],
        ['c"d.png', "one", "0.500000"],
        ["e.png", "one", "0.900000"],
    ]


# Compared with the truth


def test_evaluation_matches_classes_by_name_and_leaves_out_the_unknown(finished, tmp_path):
    folder = paint(tmp_path / "new", 60, ("zebra", "cat", "ant"))
    found = finished.evaluate(folder)
    predicted = finished.predict(folder)
    pairs = [(path.split("/")[0], label) for path, label, _ in predicted if not path.startswith("zebra")]
    assert found.images == len(pairs) == 10
    assert found.accuracy == pytest.approx(100 * np.mean([truth == label for truth, label in pairs]))
    for truth in NAMES:
        for label in NAMES:
            assert found.confusion[NAMES.index(truth), NAMES.index(label)] == pairs.count((truth, label))
    (left_out,) = found.left_out
    assert left_out.startswith("5 images of classes that the run lacks (zebra")


def test_evaluation_on_the_target_is_what_the_run_says(finished):
    found = finished.evaluate(finished.path.parent / "bright")
    assert found.accuracy == pytest.approx(finished.result["target_accuracy"])
    assert found.mean_class_accuracy == pytest.approx(finished.result["mean_class_accuracy"])
    assert found.left_out == ()


def test_pictures_without_a_known_class_are_refused(finished, tmp_path):
    with pytest.raises(hda.UserError, match=r"no class of .* \(mouse, rat\) is among the run's \(ant, bee, cat\)"):
        finished.evaluate(paint(tmp_path / "new", 60, ("rat", "mouse")))


# Its weights


def test_the_random_numbers_of_the_caller_are_left_alone(finished):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    finished.method()
    finished.predict(finished.path.parent / "bright" / "bee" / "3.png")
    assert torch.equal(torch.get_rng_state(), before)


class Stop(Reporter):
    def __init__(self, step: int) -> None:
        self.step = step

    def advance(self, step: int) -> None:
        if step == self.step:
            raise KeyboardInterrupt


def test_an_unfinished_run_predicts_as_its_last_checkpoint_has_it(finished, options, tmp_path, monkeypatch):
    monkeypatch.setenv("HDA_CACHE", str(tmp_path / "cache"))
    scenario = Scenario.read(finished.path.parent / "dark", finished.path.parent / "bright")
    with pytest.raises(KeyboardInterrupt):
        hda.fit(scenario, out=tmp_path / "run", reporter=Stop(8), **options)
    run = hda.Run(tmp_path / "run")
    assert repr(run).endswith("dark->bright, unfinished>")
    saved = load_file(tmp_path / "run" / "checkpoints" / "step-00000006" / "model.safetensors")
    loaded = run.method().state_dict()
    assert loaded.keys() == saved.keys()
    assert all(torch.equal(loaded[name], saved[name]) for name in saved)
    assert len(run.predict(scenario.target)) == 15


def test_a_run_without_a_checkpoint_cannot_predict(copied):
    shutil.rmtree(copied.path / "checkpoints")
    (copied.path / "model.safetensors").unlink()
    with pytest.raises(hda.UserError, match=r"copied has no checkpoint yet: let `hda fit` go on with it \(--resume\)"):
        copied.method()


def test_weights_that_do_not_fit_are_told_in_one_sentence(copied):
    path = copied.path / "model.safetensors"
    whole = load_file(path)
    for change, sentence in (
        (
            {"head.linear.bias": torch.full((3,), float("nan"))},
            "the weights 'head.linear.bias' hold a value that is not",
        ),
        (
            {"head.linear.bias": torch.zeros(4)},
            r"the weights do not fit the run's settings \(.*\): is the folder whole",
        ),
        ({"head.more": torch.zeros(4)}, r"the weights do not fit the run's settings \(.*head.more.*\): is the folder"),
    ):
        save_file(whole | change, path)
        with pytest.raises(hda.UserError, match=sentence) as caught:
            copied.method()
        assert "\n" not in str(caught.value)
    os.truncate(path, 20)
    with pytest.raises(hda.UserError, match=r"copied/model\.safetensors is damaged \(.*\): "):
        copied.method()


def rewritten(run: hda.Run, change) -> hda.Run:
    """The run with its settings.json changed by hand."""
    path = run.path / "settings.json"
    described = json.loads(path.read_text())
    change(described)
    path.write_text(json.dumps(described))
    return hda.Run(run.path)


@pytest.mark.parametrize(
    ("change", "lacks"),
    [
        (lambda d: d.pop("backbone"), "backbone"),
        (lambda d: d.pop("fingerprint"), "fingerprint"),
        (lambda d: d.update(origin=None), "origin"),
        (lambda d: d.update(domains="two"), "domains"),
        (lambda d: d.update(settings=[]), "settings"),
        (lambda d: d["settings"].pop("recipe"), "recipe"),
        (lambda d: d["backbone"].pop("strides"), "strides"),
    ],
)
def test_a_description_that_lacks_something_is_damaged(copied, change, lacks):
    with pytest.raises(hda.UserError, match=rf"settings\.json is damaged \(it does not say '{lacks}'\): restore it"):
        rewritten(copied, change)


def test_settings_of_another_version_are_said_to_be(copied):
    run = rewritten(copied, lambda d: d["settings"]["fit"].update(not_yet=1) or d.update(hda="9.9"))
    sentence = (
        r"settings\.json was written by hda 9\.9 and is not for hda \S+ \(unknown setting 'not_yet'\): use that version"
    )
    with pytest.raises(hda.UserError, match=sentence):
        _ = run.settings


def test_a_result_that_is_none_is_damaged(copied):
    (copied.path / "result.json").write_text("[]")
    with pytest.raises(hda.UserError, match=r"result\.json is damaged: remove it"):
        _ = copied.result
