import dataclasses
import json
import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch.nn import functional as F

import hda
from hda.data.images import LabelledImages, from_arrays
from hda.data.scenario import Answers, Scenario
from hda.engine import fit as module
from hda.engine.feeder import Bank
from hda.engine.fit import default_folder
from hda.engine.reporter import Reporter
from hda.engine.settings import Settings
from hda.registry import lookup, registered

METHODS = sorted(registered("methods"))
TIMES = ("seconds", "images_per_second")


@pytest.fixture
def run(task, short, tmp_path):
    """Called with settings: fits the small task in a new folder."""
    count = iter(range(1000))

    def fit(scenario=None, **given):
        given = {"out": tmp_path / f"run-{next(count)}", **short, **given}
        return hda.fit(scenario or task()[0], **given)

    return fit


def losses(run: hda.Run) -> list[dict]:
    """The lines of losses, times aside."""
    return [
        {name: value for name, value in record.items() if name not in TIMES}
        for record in run.records
        if "total" in record or any(name.endswith(".total") for name in record)
    ]


def training_state(run: hda.Run) -> dict[str, bytes]:
    """Parameters, optimiser, random state: the bytes of the last checkpoint's tensors."""
    (last,) = (run.path / "checkpoints").iterdir()
    return {path.name: path.read_bytes() for path in last.glob("*.safetensors")}


# Target labels are out of reach


@pytest.mark.parametrize("method", METHODS)
def test_no_answer_reaches_any_method(method, task, run):
    setting = next(name for name in ("uda", "msda", "ssda") if name in lookup("methods", method).supports)
    scenario, answers = task(setting)
    poisoned = dataclasses.replace(answers, labels=(answers.labels + 1 + np.arange(len(answers)) % 8) % 10)
    unknown = dataclasses.replace(answers, labels=np.r_[np.full(len(answers) - 1, -1), 0])
    assert (poisoned.labels != answers.labels).all()
    without = run(scenario, method=method)
    assert losses(without)
    for given in (answers, poisoned, unknown):
        other = run(scenario, method=method, evaluate=given, evaluate_every=3)
        assert losses(other) == losses(without)
        assert training_state(other) == training_state(without)
        assert (other.path / "predictions.csv").read_bytes() == (without.path / "predictions.csv").read_bytes()
    assert other.result["target_accuracy"] in (0.0, 100.0)  # of the one picture that is scored


def test_a_method_is_never_handed_answers_or_names(task, run, monkeypatch):
    seen = []
    cls = lookup("methods", "hdan")

    def spying(self, batch, progress):
        seen.append((batch, progress))
        return original(self, batch, progress)

    original = cls.losses
    monkeypatch.setattr(cls, "losses", spying)
    scenario, answers = task("ssda")
    run(scenario, evaluate=answers, steps=3)
    assert len(seen) == 3
    for batch, progress in seen:
        assert {field.name for field in dataclasses.fields(batch)} == {"images", "labels", "domains", "layout", "share"}
        assert {field.name for field in dataclasses.fields(progress)} == {"iteration", "steps"}
        assert len(batch.labels) == batch.layout.labelled == 8
        assert len(batch.domains) == batch.layout.rows == 12


def test_accuracy_is_measured_with_answers_and_absent_without(task, run):
    scenario, answers = task()
    measured, blind = run(scenario, evaluate=answers), run(scenario)
    assert not any("accuracy" in name for record in blind.records for name in record)
    assert blind.result["target_accuracy"] is blind.result["mean_class_accuracy"] is None
    lines = (measured.path / "predictions.csv").read_text().splitlines()[1:]
    predicted = np.array([int(line.split(",")[1]) for line in lines])
    right = predicted == answers.labels
    classes = [100 * right[answers.labels == number].mean() for number in np.unique(answers.labels)]
    assert measured.result["target_accuracy"] == pytest.approx(100 * right.mean())
    assert measured.result["mean_class_accuracy"] == pytest.approx(np.mean(classes))
    steps, values = measured.curve("target_accuracy")
    assert steps.tolist() == [5, 10]
    assert values[-1] == measured.result["target_accuracy"]


def test_what_is_predicted_is_read_so_that_memory_stays_bounded(task, run, monkeypatch):
    parts = []
    real = Bank.part
    monkeypatch.setattr(Bank, "part", lambda bank, *span: parts.append((len(bank), *span)) or real(bank, *span))
    scenario, answers = task()
    test = dataclasses.replace(answers.select(range(10)), images=scenario.target.select(range(10)))
    run(scenario, evaluate=test, evaluate_every=100)
    assert set(parts) == {(10, 0, 10), (70, 40, 70)}  # of the test part; of the target, which lies behind the source


def test_answers_of_other_pictures_are_refused(task, run, tmp_path):
    scenario, answers = task()
    for other in (answers.select(range(29)), dataclasses.replace(answers, classes=answers.classes[::-1])):
        with pytest.raises(hda.UserError, match="the answers are not those of the 30 pictures of handwritten: give"):
            run(scenario, evaluate=other)
    assert list(tmp_path.iterdir()) == []


def test_a_path_in_the_place_of_a_scenario_or_of_answers_is_told_in_one_sentence(task, run, tmp_path):
    for given in ("photos", task()):
        with pytest.raises(hda.UserError, match=rf"takes a Scenario and not a {type(given).__name__}: make one with"):
            run(given)
    for answers in (True, "drawings"):
        with pytest.raises(
            hda.UserError, match=rf"evaluate takes Answers and not a {type(answers).__name__}: make them"
        ):
            run(evaluate=answers)
    assert list(tmp_path.iterdir()) == []


# Random numbers


def test_the_caller_s_random_numbers_are_left_alone(task, run):
    def states():
        return torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002

    torch.manual_seed(5)
    before = states()
    fitted = run(steps=2)
    assert states() == before
    fitted.predict(task()[0].target)
    assert states() == before

    class Stop(Reporter):
        def advance(self, step):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(steps=2, reporter=Stop())
    assert states() == before


def test_gpus_that_a_run_does_not_use_keep_their_random_numbers(run, monkeypatch):
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: pytest.fail("every GPU is seeded"))
    run(steps=1, device="cpu")


def test_the_seed_alone_decides(run, outcome):
    torch.manual_seed(1)
    first = run(seed=3)
    torch.manual_seed(2)
    again, other = run(seed=3), run(seed=4)
    assert outcome(first.path) == outcome(again.path)
    assert losses(first) != losses(other)
    ours, theirs = (load_file(one.path / "model.safetensors") for one in (first, other))
    assert all(not torch.equal(ours[name], theirs[name]) for name in ours if name.endswith(".weight"))


# What a step sees


def pictures(count: int, light: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(light, light + 80, (count, 8, 8, 3)).astype(np.uint8)


def statistics(weight: torch.Tensor, groups: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Running mean and variance of the small backbone's first batch norm after each of the groups, by hand."""
    mean, variance = np.zeros(16), np.ones(16)
    for group in groups:
        x = torch.from_numpy((group / 255 - 0.5) / 0.5).permute(0, 3, 1, 2)
        x = F.max_pool2d(F.conv2d(x, weight.double(), padding=1), 2).transpose(0, 1).flatten(1).numpy()
        mean, variance = 0.9 * mean + 0.1 * x.mean(axis=1), 0.9 * variance + 0.1 * x.var(axis=1, ddof=1)
    return mean, variance


@pytest.mark.parametrize("setting", ["uda", "msda", "ssda"])
@pytest.mark.parametrize("method", ["hdan", "source-only"])
def test_labelled_rows_and_target_have_batch_statistics_of_their_own_in_this_order(setting, method, run, tmp_path):
    parts = [pictures(4, light, seed) for seed, light in enumerate((0, 60, 120, 170))]
    labels = np.array([0, 1, 0, 1])
    source, second, few = (
        LabelledImages(from_arrays(part, name=str(n)), labels, ("a", "b")) for n, part in enumerate(parts[:3])
    )
    scenario = Scenario(
        (source, second) if setting == "msda" else (source,),
        from_arrays(parts[3][:3], name="target"),
        few if setting == "ssda" else None,
    )
    options = {"method": method, "size": 8, "augment": "none", "steps": 1, "target_batch": 3, "mixing": "balanced"}
    fitted = run(scenario, **options)
    settings = Settings.given(backbone="small", weights="none", **options)
    weight = module._new_method(settings, scenario).backbone.net[0].weight.detach()
    labelled = {"uda": parts[:1], "msda": parts[:2], "ssda": [parts[0], parts[2]]}[setting]
    groups = [np.concatenate(labelled)]  # all of each: whatever the order in which they are drawn
    if method == "hdan":
        groups.append(parts[3][:3])
    mean, variance = statistics(weight, groups)
    found = load_file(fitted.path / "model.safetensors")
    np.testing.assert_allclose(found["backbone.net.2.running_mean"], mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found["backbone.net.2.running_var"], variance, rtol=1e-4)


def test_every_setting_says_which_labels_and_domains_a_step_has(task, run, monkeypatch):
    seen = []
    cls = lookup("methods", "source-only")
    original = cls.losses
    monkeypatch.setattr(cls, "losses", lambda self, batch, p: seen.append(batch) or original(self, batch, p))
    scenario, _ = task("ssda")
    run(scenario, method="source-only", steps=1, augment="none")
    (batch,) = seen
    assert batch.layout.target == 0  # it never looks at them, so they are not loaded
    assert batch.domains.tolist() == [2] * 4 + [1] * 4
    # the labels are those of the very pictures
    source, few = scenario.sources[0], scenario.labelled
    for row, image in enumerate(batch.images[0]):
        part = source if row < 4 else few
        found = [
            part.labels[index]
            for index in range(len(part))
            if np.allclose((part.images.array(index) / 255 - 0.5) / 0.5, image.permute(1, 2, 0).numpy(), atol=1e-5)
        ]
        assert batch.labels[row] in found


# What a run tells


def test_a_line_of_metrics_is_the_mean_over_the_steps_since_the_one_before(run):
    fine, coarse = run(log_every=1), run(log_every=4)
    assert [record["step"] for record in losses(fine)] == list(range(1, 11))
    assert [record["step"] for record in losses(coarse)] == [1, 4, 8, 10]
    for first, last, record in zip((1, 2, 5, 9), (1, 4, 8, 10), losses(coarse), strict=True):
        for name, value in record.items():
            if name != "step":
                each = [line[name] for line in losses(fine)[first - 1 : last]]
                assert value == pytest.approx(np.mean(each), rel=1e-5, abs=1e-7), name


def test_the_total_is_the_sum_of_the_terms_and_the_rate_is_the_recipe_s(run):
    for record in losses(run(log_every=1, lr=0.02, decay=0.1)):
        terms = record["classification"] + record["transfer"] + record["termination"]
        assert record["total"] == pytest.approx(terms, rel=1e-5)
        assert record["lr"] == pytest.approx(0.02 * (1 + 0.1 * (record["step"] - 1)) ** -0.75, rel=1e-5)


def test_bf16_is_what_the_backbone_computes_and_predicts_in(task, run):
    exact, coarse = run(steps=4), run(steps=4, precision="bf16")
    assert coarse.result["precision"] == "bf16"
    assert losses(coarse) != losses(exact)
    assert losses(coarse)[0]["total"] == pytest.approx(losses(exact)[0]["total"], rel=0.02)
    weights = load_file(coarse.path / "model.safetensors")
    assert all(value.dtype in (torch.float32, torch.int64) for value in weights.values())
    predicted = (coarse.path / "predictions.csv").read_text().splitlines()[1:]
    again = coarse.predict(task()[0].target)
    confidences = [float(line.split(",")[2]) for line in predicted]
    np.testing.assert_allclose(again.probabilities.max(axis=1), confidences, atol=2e-6)


class Listener(Reporter):
    def __init__(self) -> None:
        self.heard = []

    def note(self, sentence):
        self.heard.append(("note", sentence))

    def begin(self, start, steps):
        self.heard.append(("begin", start, steps))

    def advance(self, step):
        self.heard.append(("advance", step))

    def record(self, record):
        self.heard.append(("record", record["step"]))

    def end(self):
        self.heard.append(("end",))


def test_a_reporter_hears_everything_in_order(task, run):
    listener = Listener()
    scenario, _ = task()
    fitted = run(scenario, steps=3, log_every=2, reporter=listener)
    assert listener.heard == [
        *(("note", sentence) for sentence in scenario.notes),
        ("begin", 0, 3),
        ("advance", 1),
        ("record", 1),
        ("advance", 2),
        ("record", 2),
        ("advance", 3),
        ("record", 3),
        ("end",),
    ]
    again = Listener()
    hda.fit(scenario, out=fitted.path, resume=True, reporter=again, **fitted.settings.flat())
    assert again.heard == [("note", f"{fitted.path} is finished: nothing is left to do")]


def test_a_run_that_resumes_where_none_was_says_so_and_begins(run, tmp_path):
    listener = Listener()
    fitted = run(out=tmp_path / "new", steps=1, resume=True, reporter=listener)
    assert ("note", f"{tmp_path / 'new'} does not exist yet: the run starts at its beginning") in listener.heard
    assert fitted.result["resumed_from"] is None
    assert not any("event" in record for record in fitted.records)


def test_a_reporter_hears_the_end_of_a_run_that_fails(run):
    class Failing(Listener):
        def advance(self, step):
            raise KeyError

    listener = Failing()
    with pytest.raises(KeyError):
        run(reporter=listener)
    assert listener.heard[-1] == ("end",)


def test_the_folder_holds_settings_metrics_a_checkpoint_predictions_and_the_result(task, run):
    scenario, answers = task("ssda")
    fitted = run(scenario, evaluate=answers, origin={"source": ["typed"]})
    names = {str(path.relative_to(fitted.path)) for path in fitted.path.rglob("*") if path.is_file()}
    last = "checkpoints/step-00000010"
    assert names == {
        *("settings.json", "metrics.jsonl", "model.safetensors", "predictions.csv", "result.json", "lock"),
        *(f"{last}/{name}" for name in ("model.safetensors", "training.safetensors", "state.json")),
    }
    told = json.loads((fitted.path / "settings.json").read_text())
    assert told["setting"] == "ssda"
    assert told["classes"] == list("0123456789")
    assert told["images"] == {"source": 40, "labelled": 10, "target": 30}
    assert told["origin"] == {"source": ["typed"]}
    assert Settings.from_dict(told["settings"]) == fitted.settings
    result = fitted.result
    assert (result["steps"], result["resumed_from"], result["domains"]) == (10, None, 3)
    assert result["images"] == told["images"]
    assert (result["method"], result["task"], result["device"], result["precision"]) == (
        *("hdan", "typed->handwritten", "cpu", "fp32"),
    )
    assert result["versions"]["torch"] == torch.__version__
    lines = (fitted.path / "predictions.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["path", *scenario.target.names]


@pytest.mark.parametrize("every", [1, 4, 100])
def test_checkpoints_are_written_as_often_as_asked_and_at_the_end(every, run, monkeypatch):
    steps = []
    original = module.checkpoint.save
    monkeypatch.setattr(
        module.checkpoint, "save", lambda folder, saved: steps.append(saved.step) or original(folder, saved)
    )
    fitted = run(steps=6, checkpoint_every=every)
    assert steps == [step for step in range(1, 7) if step % every == 0 or step == 6]
    assert [path.name for path in (fitted.path / "checkpoints").iterdir()] == ["step-00000006"]


def test_a_name_is_found_for_a_run_that_has_none(task, short, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fitted = hda.fit(task()[0], **{**short, "steps": 1, "seed": 7})
    assert fitted.path == Path("runs/hdan-typed-handwritten-7")
    with pytest.raises(hda.UserError, match="exists: give another --out, or --resume"):
        hda.fit(task()[0], **{**short, "steps": 1, "seed": 7})


@pytest.mark.parametrize(
    ("name", "folder"), [("a b/c", "hdan-a-b-c-target-0"), ("..", "hdan-..-target-0"), ("x:*?y", "hdan-x-y-target-0")]
)
def test_the_name_of_a_run_is_a_folder_s(name, folder):
    source = LabelledImages(from_arrays(pictures(2, 0, 0), name=name), np.array([0, 1]), ("a", "b"))
    scenario = Scenario((source,), from_arrays(pictures(2, 0, 1), name="target"))
    assert default_folder(Settings.given(), scenario) == Path("runs") / folder


# What is refused leaves nothing


def test_a_loss_that_is_not_finite_stops_the_run_before_it_is_recorded(run, tmp_path):
    with pytest.raises(hda.UserError, match="is no longer finite within the 3 steps to step 4: give a lower --lr"):
        run(out=tmp_path / "run", lr=1e30)
    assert hda.Run(tmp_path / "run").result is None
    assert [record["step"] for record in hda.Run(tmp_path / "run").records] == [1]
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_predictions_that_are_not_finite_are_no_result(run, tmp_path):
    with pytest.raises(hda.UserError, match="predictions are no longer finite after step 1: give a lower --lr"):
        run(out=tmp_path / "run", lr=1e30, steps=1)
    assert hda.Run(tmp_path / "run").result is None


def test_a_method_that_does_not_know_the_setting_is_refused(task, run, tmp_path, monkeypatch):
    monkeypatch.setattr(lookup("methods", "mcd"), "supports", frozenset({"uda", "ssda"}))
    with pytest.raises(hda.UserError, match="method 'mcd' does not know the setting msda: it works for ssda, uda"):
        run(task("msda")[0], method="mcd")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "hdam"}, "unknown method 'hdam': did you mean 'hdan'"),
        ({"augment": "crop"}, "unknown augment 'crop': did you mean 'crop-flip'"),
        ({"heuristic": 2}, "unknown setting 'heuristic': did you mean 'heuristics'"),
        ({"steps": 0}, "steps must be at least 1: got 0"),
        ({"weights": "nowhere.pth"}, "the weights 'nowhere.pth' are not there"),
        ({"device": "tpu"}, "unknown device 'tpu': give auto, cpu, cuda or cuda:N"),
        ({"backbone": "resnet50x", "weights": "none"}, "unknown backbone 'resnet50x': did you mean"),
    ],
)
def test_what_is_wrong_is_told_before_a_folder_is_made(options, sentence, run, tmp_path):
    with pytest.raises(hda.UserError) as caught:
        run(**options)
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["empty", "foreign", "file"])
def test_what_exists_is_never_written_over(kind, run, tmp_path):
    out = tmp_path / "mine"
    if kind == "file":
        out.write_text("mine")
    else:
        out.mkdir()
    if kind == "foreign":
        (out / "notes.txt").write_text("mine")
    before = sorted((str(path), path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    for resume in (False, True):
        with pytest.raises(hda.UserError, match="mine exists: give another --out"):
            run(out=out, resume=resume)
    assert sorted((str(path), path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before


def test_a_folder_that_cannot_be_made_is_told(run, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(hda.UserError, match=r"file/deep/run cannot be made, since .*file is no folder: give another"):
        run(out=tmp_path / "file" / "deep" / "run")


# Pictures that cannot be read


@pytest.fixture
def folders(tmp_path, monkeypatch) -> Path:
    """Two folders of pictures, one of which is no picture."""
    monkeypatch.setenv("HDA_CACHE", str(tmp_path / "cache"))
    for domain, seed in (("source", 0), ("target", 1)):
        for name in ("ant", "bee"):
            (tmp_path / domain / name).mkdir(parents=True)
            for number, picture in enumerate(pictures(4, 40, seed)):
                Image.fromarray(picture).save(tmp_path / domain / name / f"{number}.png")
    (tmp_path / "target" / "ant" / "1.png").write_bytes(b"no picture")
    return tmp_path


def test_a_broken_picture_stops_the_run_or_is_left_out_with_its_answer(folders, run):
    scenario = Scenario.read(folders / "source", folders / "target")
    answers = Answers.read(folders / "target", scenario)
    with pytest.raises(hda.UserError, match=r"target/ant/1\.png"):
        run(scenario, size=8, out=folders / "run")
    assert not (folders / "run").exists()
    listener = Listener()
    fitted = run(scenario, size=8, out=folders / "run", steps=2, evaluate=answers, skip_broken=True, reporter=listener)
    assert any(heard[0] == "note" and "ant/1.png" in heard[1] for heard in listener.heard)
    assert fitted.result["images"] == {"source": 8, "labelled": 0, "target": 7}
    lines = (fitted.path / "predictions.csv").read_text().splitlines()[1:]
    told = [line.split(",") for line in lines]
    assert [path for path, *_ in told] == [
        *("ant/0.png", "ant/2.png", "ant/3.png", "bee/0.png", "bee/1.png", "bee/2.png", "bee/3.png"),
    ]
    right = [path.split("/")[0] == label for path, label, _ in told]
    assert fitted.result["target_accuracy"] == pytest.approx(100 * np.mean(right))


def test_a_flat_target_is_fitted_without_answers(folders, run):
    (folders / "flat").mkdir()
    for number, path in enumerate(sorted((folders / "source").rglob("*.png"))):
        shutil.copy(path, folders / "flat" / f"{number}.png")
        os.utime(folders / "flat" / f"{number}.png")
    fitted = run(Scenario.read(folders / "source", folders / "flat"), size=8, steps=2)
    assert fitted.result["target_accuracy"] is None
    assert len((fitted.path / "predictions.csv").read_text().splitlines()) == 9
