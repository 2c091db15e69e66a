import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from hda import backbones
from hda.cli.main import main
from hda.engine.settings import FitSettings
from hda.registry import registered
from hda.settings import options

NETWORK = ("--backbone", "small", "--weights", "none", "--size", "32", "--device", "cpu")
QUICK = (*NETWORK, "--steps", "2", "--batch", "4")
UDA = ("--source", "photos", "--target", "flat", *QUICK)


def listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


# What it does


def test_an_unlabelled_flat_target_gives_a_run_without_accuracy(hda, here):
    told = hda("fit", *UDA, "--out", "run", "--json")
    assert told.code == 0
    seconds = told.json["seconds"]
    assert seconds > 0
    assert told.json == {
        "run": "run",
        "target_accuracy": None,
        "steps": 2,
        "resumed_from": None,
        "seconds": seconds,
        "images": {"source": 12, "labelled": 0, "target": 6},
        "domains": 2,
        "selected": None,
    }
    assert "accuracy" not in told.out.replace('"target_accuracy"', "")
    rows = (here / "run" / "predictions.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows[1:]] == sorted(path.name for path in (here / "flat").iterdir())


def test_with_evaluate_the_accuracy_is_that_of_the_predictions_written(hda, here):
    told = hda("fit", "--source", "photos", "--target", "drawings", "--evaluate", *QUICK, "--out", "run", "--json")
    rows = [row.split(",") for row in (here / "run" / "predictions.csv").read_text().splitlines()[1:]]
    right = [path.split("/")[0] == label for path, label, _ in rows]
    assert len(right) == 9
    assert told.json["target_accuracy"] == pytest.approx(100 * sum(right) / 9)
    assert f"target accuracy {100 * sum(right) / 9:.2f} % at the last step" in told.out


def test_several_sources_and_a_few_labels_are_counted(hda, here):
    told = hda("fit", "--source", "photos", "drawings", "--target", "flat", "--labelled", "few", *QUICK, "--json")
    assert told.json["images"] == {"source": 21, "labelled": 3, "target": 6}
    assert told.json["domains"] == 4
    assert told.json["run"] == "runs/hdan-photos,drawings-flat-0"
    first = told.out.splitlines()[0]
    assert first == (
        "photos,drawings->flat: 21 labelled images of 3 classes, 3 labelled ones of the target, 6 unlabelled ones"
    )


def test_settings_of_method_and_recipe_arrive(hda, here):
    words = ("--method", "mcd", "--generator-steps", "2", "--recipe", "adamw", "--warmup", "0.5", "--no-graph")
    assert hda("fit", *UDA, *words, "--out", "run").code == 0
    settings = json.loads((here / "run" / "settings.json").read_text())["settings"]
    assert (settings["fit"]["method"], settings["fit"]["recipe"], settings["fit"]["graph"]) == ("mcd", "adamw", False)
    assert settings["method"]["generator_steps"] == 2
    assert settings["recipe"]["warmup"] == 0.5


def test_broken_pictures_are_left_out_and_named_when_asked(hda, here):
    (here / "photos" / "sea" / "1.jpg").write_bytes(b"no picture")
    (here / "photos" / "sea" / "2.jpg").write_bytes(b"")
    told = hda("fit", *UDA, "--skip-broken", "--out", "run", "--json")
    assert told.json["images"]["source"] == 10
    left_out = [line for line in told.out.splitlines() if line.startswith("left out: ")]
    assert [line.split("/photos/")[1] for line in left_out] == [
        "sea/1.jpg (not an image of a known format)",
        "sea/2.jpg (empty file)",
    ]


def test_lists_are_read_from_their_root(hda, here):
    rows = [f"photos/{name}/{number}.jpg {name}" for name in ("apple", "sea") for number in range(4)]
    Path("lists").mkdir()
    Path("lists/labels.txt").write_text("\n".join(rows))
    told = hda(
        "fit", "--source", "lists/labels.txt", "--root", ".", "--target", "flat", *QUICK, "--out", "run", "--json"
    )
    assert told.json["images"]["source"] == 8
    assert json.loads(Path("run/settings.json").read_text())["classes"] == ["apple", "sea"]


# Help


@pytest.mark.parametrize("recipe", sorted(registered("recipes")))
@pytest.mark.parametrize("method", sorted(registered("methods")))
def test_help_lists_every_setting_with_its_kind_and_default(hda, method, recipe):
    text = hda("fit", "--method", method, "--recipe", recipe, "--help").out
    shown = {}
    for entry in re.split(r"\n  (?=--)", text)[1:]:
        entry = " ".join(entry.split("\n\n")[0].split())
        shown[entry.split()[0].rstrip(",")] = entry
    kinds = (FitSettings, registered("methods")[method].Settings, registered("recipes")[recipe].Settings)
    for option in (option for kind in kinds for option in options(kind)):
        entry = shown["--" + option.name.replace("_", "-")]
        default = re.search(r"\(default: ([^),]+)", entry)[1]
        if option.kind is bool:
            assert f"--no-{option.name.replace('_', '-')} " in entry
            assert default == {None: "auto", True: "on", False: "off"}[option.default]
            continue
        metavar = "|".join(option.choices) or {int: "N", float: "X", str: "NAME"}[option.kind]
        assert entry.split()[1] == metavar
        assert (default if option.default is None or option.kind is str else option.kind(default)) == (
            "auto" if option.default is None else option.default
        )
        assert entry.split(metavar, 1)[1].split("(default")[0].strip()  # a sentence


def test_help_of_a_method_says_whose_settings_they_are(hda):
    text = hda("fit", "--method", "se", "--help").out
    assert "settings of the method se:\n  Self-ensembling for visual domain adaptation" in text
    assert "settings of the recipe sgd:" in text
    assert "--heuristics" not in text


# Going on


WORDS = ("--source", "photos", "--target", "drawings", "--evaluate", *NETWORK, "--steps", "6", "--batch", "4")


def interrupt(self, step):
    if step == 3:
        raise KeyboardInterrupt


@pytest.fixture(scope="module")
def stopped_once(album, tmp_path_factory):
    """A run interrupted in its third step, whose last checkpoint is that of the second."""
    out = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(album)
        patch.setenv("HDA_CACHE", str(out.parent / "cache"))
        patch.setattr("hda.cli.terminal.Lines.advance", interrupt)
        assert main(["fit", *WORDS, "--checkpoint-every", "2", "--out", str(out)]) == 130
    return out


@pytest.fixture
def stopped(stopped_once, album, here):
    """The stopped run as if it had been begun here."""
    shutil.copytree(stopped_once, "run")
    settings = Path("run/settings.json")
    settings.write_text(settings.read_text().replace(str(album), str(here)))


def test_an_interrupted_run_says_how_to_go_on(hda, here, monkeypatch):
    monkeypatch.setattr("hda.cli.terminal.Lines.advance", interrupt)
    told = hda("fit", *WORDS, "--out", "run")
    assert told.code == 130
    assert told.err.splitlines()[-1] == "hda: interrupted: `hda fit --resume --out run` goes on with it"


def test_a_stopped_run_goes_on_with_what_it_was_begun_with(hda, stopped):
    told = hda("fit", "--resume", "--out", "run", "--json")
    assert told.code == 0
    assert (told.json["resumed_from"], told.json["steps"]) == (2, 6)
    assert told.json["target_accuracy"] is not None
    again = hda("fit", "--resume", "--out", "run", "--json")
    assert "run is finished: nothing is left to do" in again.out
    assert again.json == told.json


def test_a_stopped_run_goes_on_with_the_whole_line_again(hda, stopped):
    told = hda("fit", *WORDS, "--checkpoint-every", "2", "--out", "run", "--resume", "--json")
    assert told.json["resumed_from"] == 2


def test_a_run_goes_on_where_its_pictures_have_moved(hda, here, stopped):
    shutil.move("photos", "elsewhere")
    assert "photos does not exist" in hda("fit", "--resume", "--out", "run").sentence
    told = hda(
        "fit", "--resume", "--out", "run", "--source", "elsewhere", "--target", "drawings", "--evaluate", "--json"
    )
    assert told.json["resumed_from"] == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--lr", "0.5"], "run was begun with --lr auto and cannot go on with 0.5: "),
        (["--steps", "9"], "run was begun with --steps 6 and cannot go on with 9: "),
        (["--method", "mcd"], "run was begun with --method hdan and cannot go on with mcd: "),
        (["--recipe", "adamw"], "run was begun with --recipe sgd and cannot go on with adamw: "),
        (["--source", "photos"], "no target is given: add --target PATH"),
        (["--source", "photos", "--target", "flat"], "the pictures are not those that run was begun with: "),
    ],
)
def test_a_run_does_not_go_on_with_something_else(hda, here, stopped, words, sentence):
    before = {name: (here / name).read_bytes() for name in listing(here) if (here / name).is_file()}
    assert hda("fit", "--resume", "--out", "run", *words).sentence.startswith(sentence)
    assert {name: (here / name).read_bytes() for name in listing(here) if (here / name).is_file()} == before


# Mistakes


@pytest.fixture
def spoilt(here):
    """The album with all that can be wrong with pictures, lists and weights."""
    for name in ("corrupt", "truncated", "emptyclass", "mixed", "strange"):
        shutil.copytree("photos", name)
    Path("corrupt/sea/1.jpg").write_bytes(b"no picture")
    whole = Path("truncated/sea/2.jpg").read_bytes()
    Path("truncated/sea/2.jpg").write_bytes(whole[: len(whole) // 2])
    Path("emptyclass/zebra").mkdir()
    shutil.copy("flat/0-a.jpg", "mixed/loose.jpg")
    for name in ("apple", "leaf", "sea"):
        Path("strange", name).rename(Path("strange", f"my {name}s"))
    Path("single/apple").mkdir(parents=True)
    shutil.copy("photos/apple/0.jpg", "single/apple/0.jpg")
    Path("nothing").mkdir()
    Path("texts/a").mkdir(parents=True)
    Path("texts/a/b.csv").write_text("no picture")
    for name, text in (
        ("plain", "hello"),
        ("words.txt", "hello\n"),
        ("half.txt", "photos/apple/0.jpg apple\nphotos/sea/0.jpg\n"),
        ("gone.txt", "photos/apple/0.jpg apple\nphotos/sea/99.jpg sea\n"),
        ("empty.txt", "# nothing\n"),
    ):
        Path(name).write_text(text)
    Path("bytes.txt").write_bytes(bytes(range(256)))
    Path("pictures.tar.gz").write_bytes(b"\x1f\x8b")
    save_file({"layer.weight": torch.zeros(3, 3)}, "other.safetensors")
    Path("damaged.safetensors").write_bytes(b"no weights at all")
    Path("damaged.pth").write_bytes(b"no weights at all")
    weights = {
        name: value.clone().contiguous() for name, value in backbones.create("small", "none").net.state_dict().items()
    }
    next(iter(weights.values()))[0] = float("nan")
    save_file(weights, "nan.safetensors")
    Path("taken").mkdir()
    return here


PICTURES = [
    ("--target flat", "no source is given: add --source PATH"),
    ("--source photos", "no target is given: add --target PATH"),
    ("--source gone --target flat", "gone does not exist: check the path"),
    ("--source photos --target gone", "gone does not exist: check the path"),
    ("--source photos --target flat --labelled gone", "gone does not exist: check the path"),
    ("--source emptyclass --target flat", "class 'zebra' in emptyclass has no images: "),
    ("--source single --target flat", "single has images of the single class 'apple': give at least two classes"),
    ("--source flat --target photos", "flat has images directly in it, such as "),
    ("--source mixed --target flat", "mixed has images directly in it, such as loose.jpg: "),
    ("--source nothing --target flat", "nothing holds no images: "),
    ("--source photos --target nothing", "nothing holds no images: "),
    ("--source texts --target flat", "texts holds no images: "),
    ("--source plain --target flat", "plain is of an unknown kind: give a folder, "),
    ("--source photos/sea/0.jpg --target flat", "photos/sea/0.jpg is a single image: give a folder"),
    ("--source pictures.tar.gz --target flat", "pictures.tar.gz is compressed"),
    ("--source words.txt --target flat", "line 1 of words.txt reads 'hello': write it as `path label`"),
    ("--source half.txt --target flat", "line 2 of half.txt reads 'photos/sea/0.jpg': write it as `path label`"),
    ("--source gone.txt --target flat", "line 2 of gone.txt names photos/sea/99.jpg, which is not in "),
    ("--source half.txt --root gone --target flat", "gone does not exist: check the path"),
    ("--source empty.txt --target flat", "empty.txt names no images: "),
    ("--source bytes.txt --target flat", "bytes.txt is not a text in UTF-8: "),
    ("--source photos --target flat --root photos", "the root photos is for the paths in lists"),
    ("--source photos --target photos", "photos is given as source and as target: "),
    ("--source photos photos --target flat", "photos is given twice as source: "),
    ("--source photos --target photos/sea", "the source photos and the target sea share 4 images, such as "),
    ("--source photos --target flat --labelled flat", "flat is given as target and as labelled target: "),
    (
        "--source photos --target flat --labelled strange",
        "class 'my apples' of the labelled target strange is not among",
    ),
    ("--source photos --target flat --evaluate", "flat has no class folders, so its true labels are unknown: "),
    ("--source photos --target strange --evaluate", "no class of strange (my apples, my leafs, my seas) is among"),
    ("--source photos --target flat drawings", "'drawings' is one word too many"),
]
BROKEN = [
    ("--source corrupt --target flat", "/corrupt/sea/1.jpg is a broken image: not an image of a known format ("),
    ("--source truncated --target flat", "/truncated/sea/2.jpg is a broken image: "),
    ("--source photos --target corrupt", "/corrupt/sea/1.jpg is a broken image: "),
]
SETTINGS = [
    ("--steps many", "--steps takes a whole number: got 'many'"),
    ("--steps 0", "--steps must be at least 1: got 0"),
    ("--steps -5", "--steps must be at least 1: got -5"),
    ("--steps 1.5", "--steps takes a whole number: got '1.5'"),
    ("--target-batch 0", "--target-batch must be at least 1: got 0"),
    ("--lr fast", "--lr takes a number: got 'fast'"),
    ("--lr nan", "--lr takes a number: got 'nan'"),
    ("--lr -1", "--lr must be at least 0: got -1.0"),
    ("--momentum 2", "--momentum must be between 0 and 1: got 2.0"),
    ("--weight-decay -1", "--weight-decay must be at least 0: got -1.0"),
    ("--discriminator-dropout 2", "--discriminator-dropout must be between 0 and 1: got 2.0"),
    ("--recipe adamw --warmup 3", "--warmup must be between 0 and 1: got 3.0"),
    ("--method mcd --head-dropout -1", "--head-dropout must be between 0 and 1: got -1.0"),
    ("--method se --confidence 7", "--confidence must be between 0 and 1: got 7.0"),
    ("--seed -1", "--seed must be between 0 and "),
    ("--seed 99999999999999999999", "--seed must be between 0 and "),
    ("--size 3", "small cannot take pictures of --size 3: give a larger one"),
    ("--fundament-slope 1e300", "--fundament-slope must be between "),
    ("--heuristics 1000000000000", "this does not fit into the memory of cpu: give a smaller "),
    ("--out flat/run", "flat/run would lie among the pictures of flat, as one of them: give another --out"),
    ("--method hdam", "unknown method 'hdam': did you mean 'hdan'"),
    ("--recipe sdg", "unknown recipe 'sdg': did you mean 'sgd'? (known: adamw, "),
    ("--augment crop", "unknown augment 'crop': did you mean 'crop-flip'"),
    ("--precision bf8", "unknown precision 'bf8': did you mean 'bf16'? (known: auto, "),
    ("--strides v2", "unknown strides 'v2': did you mean 'v1'? (known: v1, v1.5)"),
    ("--strides v1", "small has no bottlenecks whose strides could be v1: "),
    ("--backbone resnet5", "unknown backbone 'resnet5': did you mean 'resnet50' or "),
    ("--device gpu", "unknown device 'gpu': give auto, cpu, cuda or cuda:N"),
    ("--device cuda:99", "device 'cuda:99' needs a GPU that PyTorch can use, and there "),
    ("--stepps 3", "unknown option '--stepps': did you mean '--steps' or "),
    (
        "--generator-steps 3",
        "--generator-steps is a setting of the methods adr, m3sda-beta, mcd, and the method is hdan: ",
    ),
    ("--warmup 0.1", "--warmup is a setting of the recipe adamw, and the recipe is sgd: "),
    ("--graph yes", "'yes' is one word too many after --graph"),
    ("--evaluate=yes", "--evaluate takes no value: got 'yes'"),
    ("--method", "--method needs a value"),
    ("--weights pretrained", "the backbone 'small' has no pretrained weights: give --weights none"),
    ("--weights pretrainde", "the weights 'pretrainde' are not there: did you mean 'pretrained'?"),
    ("--weights gone.pth", "the weights 'gone.pth' are not there: give pretrained, none, or an existing file"),
    ("--weights taken", "the weights taken are a folder: "),
    ("--weights other.safetensors", "the weights other.safetensors do not fit small ("),
    ("--weights damaged.safetensors", "the weights damaged.safetensors are damaged ("),
    ("--weights damaged.pth", "the weights damaged.pth are "),
    ("--weights nan.safetensors", "the weights nan.safetensors hold a value that is not finite in 0.weight: "),
    ("--out taken", "taken exists: give another --out, or --resume to go on with it"),
    ("--out plain", "plain exists: give another --out"),
    ("--out plain/run", "plain/run cannot be made, since "),
    ("--resume --out taken", "taken exists: give another --out"),
]


@pytest.mark.parametrize(("words", "sentence"), PICTURES)
def test_wrong_pictures_are_told_and_nothing_is_written(hda, spoilt, words, sentence):
    before = listing(spoilt)
    told = hda("fit", *words.split(), *QUICK, "--out", "run")
    assert told.sentence.startswith(sentence)
    assert told.out == ""
    assert listing(spoilt) == before


@pytest.mark.parametrize(("words", "sentence"), BROKEN)
def test_broken_pictures_are_named_and_nothing_is_written(hda, spoilt, words, sentence):
    before = listing(spoilt)
    told = hda("fit", *words.split(), *QUICK, "--out", "run")
    assert sentence in told.sentence
    assert "--skip-broken" in told.sentence
    assert listing(spoilt) == before


@pytest.mark.parametrize(("words", "sentence"), SETTINGS)
def test_wrong_settings_are_told_before_a_picture_is_read_and_nothing_is_written(hda, spoilt, words, sentence):
    before = listing(spoilt)
    given = ("--source", "corrupt", "--target", "flat", *QUICK, "--out", "run")  # reading would find what is broken
    assert hda("fit", *given, *words.split()).sentence.startswith(sentence)
    assert listing(spoilt) == before


def test_what_the_first_step_comes_upon_leaves_no_folder_in_the_way(hda, here):
    told = hda("fit", *UDA, "--backbone", "resnet18", "--batch", "1", "--size", "32", "--out", "run")
    assert told.code == 2
    assert told.err.splitlines()[-1].startswith("hda: a batch norm sees a single value of a domain: give a larger --b")
    assert not (here / "run").exists()


def test_going_on_needs_a_run(hda, spoilt):
    before = listing(spoilt)
    for words, sentence in (
        (("--resume",), "--resume needs the run's folder: add --out DIR"),
        (("--resume", "--out", "gone"), "gone is not a run's folder: give --resume the --out that "),
        (("--resume", "--out", "taken"), "taken is not a run's folder: give --resume the --out that "),
    ):
        assert hda("fit", *words).sentence.startswith(sentence)
    assert listing(spoilt) == before


def test_a_class_of_broken_pictures_alone_is_not_skipped(hda, here):
    for path in (here / "photos" / "sea").iterdir():
        path.write_bytes(b"no picture")
    told = hda("fit", *UDA, "--skip-broken", "--out", "run")
    assert told.sentence == "no image of class 'sea' can be read: repair some or remove its folder"
    assert not (here / "run").exists()


def test_an_existing_run_is_not_written_over(hda, run, here):
    before = {name: (here / name).read_bytes() for name in listing(here) if (here / name).is_file()}
    assert hda("fit", *UDA, "--out", run).sentence == "run exists: give another --out, or --resume to go on with it"
    assert {name: (here / name).read_bytes() for name in listing(here) if (here / name).is_file()} == before


def test_a_folder_closed_to_us_is_named(hda, here, monkeypatch):
    import os

    open_folder = os.scandir

    def scandir(path):
        if str(path).endswith("sea"):
            raise PermissionError(13, "Permission denied", str(path))
        return open_folder(path)

    monkeypatch.setattr("os.scandir", scandir)
    assert (
        hda("fit", *UDA, "--out", "run").sentence
        == "photos/sea cannot be read (Permission denied): check its permissions"
    )
