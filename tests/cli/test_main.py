import json
import logging
import os
import pty
import re
import shlex
import subprocess
import sys
from types import SimpleNamespace

import pytest

import hda as package
from hda.cli import main as module
from hda.errors import SettingError, UserError

COMMANDS = list(module.commands())


@pytest.fixture
def fake(monkeypatch):
    """A command in the place of all others, whose `run` is given."""

    def make(run):
        command = SimpleNamespace(__doc__="Do something.", arguments=lambda parser, words: None, run=run)
        monkeypatch.setattr(module.importlib, "import_module", lambda name: command)

    return make


# Help


def test_without_words_the_help_is_shown(hda):
    shown = hda()
    assert shown.code == 0
    assert shown == hda("--help") == hda("-h") == hda("help")
    shown_names = [line.split()[0] for line in shown.out.splitlines() if line.startswith("  ")]
    assert shown_names[: len(module.ORDER)] == list(module.ORDER)
    assert sorted(shown_names) == sorted(COMMANDS)
    assert {"bench", "speed", "tune"} < set(shown_names)


def test_each_command_is_shown_with_the_first_line_of_its_help(hda):
    shown = hda("--help").out.splitlines()
    for name in COMMANDS:
        of_command = hda(name, "--help")
        assert of_command.code == 0
        assert of_command.err == ""
        summary = next(line for line in shown if line.startswith(f"  {name} ")).split(maxsplit=1)[1]
        assert summary.rstrip(".") in " ".join(of_command.out.split())
        assert f"usage: hda {name}" in of_command.out
        assert f"\n  hda {name}" in of_command.out or name == "doctor"  # an example, on a line of its own
        assert max(map(len, of_command.out.splitlines())) <= 110
        assert hda("help", name) == of_command


def test_the_version_is_the_package_s(hda):
    assert hda("--version").out == f"hda {package.__version__}\n"


def test_asking_for_help_imports_neither_torch_nor_numpy():
    script = (
        "import sys\nfrom hda.cli.main import main\n"
        "for words in (['--help'], [], ['--version'], ['bench', '--help']):\n    assert main(words) == 0\n"
        "assert main(['fitt']) == 2\n"
        "heavy = {'torch', 'torchvision', 'timm', 'numpy', 'sklearn', 'matplotlib', 'PIL', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


# Mistakes


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fitt"], "unknown command 'fitt': did you mean 'fit' or 'list'? (known: "),
        (["help", "evalute"], "unknown command 'evalute': did you mean 'evaluate'? (known: "),
        (
            ["--verbose"],
            f"unknown command '--verbose' (known: {', '.join(sorted(COMMANDS))})",
        ),
        (["doctor", "extra"], "'extra' is one word too many (`hda doctor --help` shows how)"),
        (["doctor", "--jsn"], "unknown option '--jsn': did you mean '--json'? (`hda doctor --help` lists all)"),
        (["doctor", "--js"], "unknown option '--js': did you mean '--json'? (`hda doctor --help` lists all)"),
        (["doctor", "--json", "yes"], "'yes' is one word too many after --json (`hda doctor --help` shows how)"),
        (["doctor", "--json=yes"], "--json takes no value: got 'yes' (`hda doctor --help` shows how)"),
        (["predict"], "RUN and PATH must be given (`hda predict --help` shows how)"),
        (["predict", "run"], "PATH must be given (`hda predict --help` shows how)"),
        (["predict", "run", "new", "--out"], "--out needs a value (`hda predict --help` shows how)"),
        (["predict", "run", "new", "--out", ""], "--out is empty: give it a value (`hda predict --help` shows how)"),
        (["predict", "", "new"], "RUN is empty: give it a value (`hda predict --help` shows how)"),
        (["fit", "--source", "", "--target", "t"], "--source is empty: give it a value (`hda fit --help` shows how)"),
        (["fit", "--source", "--target", "t"], "--source needs a value (`hda fit --help` shows how)"),
    ],
)
def test_words_that_are_not_understood_are_told_in_one_sentence(hda, words, sentence):
    assert hda(*words).sentence.startswith(sentence)


def test_a_wrong_setting_is_told_as_an_option(hda, fake):
    def run(args):
        raise SettingError("target_batch", "must be at least 1: got 0")

    fake(run)
    assert hda("fit").sentence == "--target-batch must be at least 1: got 0"


def test_a_mistake_leaves_standard_output_without_json(hda, fake):
    def run(args):
        raise UserError("photos does not exist: check the path")

    fake(run)
    told = hda("fit", "--json")
    assert told.sentence == "photos does not exist: check the path"
    assert told.out == ""


def test_what_the_system_refuses_is_told_with_its_path(hda, fake, tmp_path):
    fake(lambda args: (tmp_path / "gone" / "file").write_text(""))
    place = f"{tmp_path}/gone/file"
    assert hda("fit").sentence == f"{place} cannot be read or written (No such file or directory): see to it first"


def test_a_mistake_of_ours_is_not_hidden(hda, fake):
    fake(lambda args: {}["missing"])
    with pytest.raises(KeyError):
        hda("fit")


def test_an_interruption_is_told_with_what_to_do(hda, fake):
    def run(args):
        raise KeyboardInterrupt("`hda fit --resume --out run` goes on with it")

    fake(run)
    told = hda("fit")
    assert (told.code, told.err) == (130, "hda: interrupted: `hda fit --resume --out run` goes on with it\n")


# Output


def test_with_json_the_last_line_is_the_one_object(hda, fake):
    def run(args):
        print("a note\nanother")
        logging.getLogger("hda").info("for the log")
        return {"name": "dé-door", "value": None}

    fake(run)
    told = hda("fit", "--json")
    assert told.out.splitlines()[:-1] == ["a note", "another"]
    assert told.json == {"name": "dé-door", "value": None}
    assert told.err == "for the log\n"
    assert hda("fit").out == "a note\nanother\n"


def test_the_log_goes_to_standard_error_as_it_is_at_the_time(hda, fake, capsys):
    fake(lambda args: logging.getLogger("hda").info("now"))
    for _ in range(2):  # the second time another stream stands there, and there is still one handler
        assert hda("fit").err == "now\n"


def test_a_name_that_is_no_text_is_printed_as_its_bytes(tmp_path):
    script = "import sys; from hda.cli import main as m; m._main = lambda words: print(words[0]) or 0; m.main()"
    for coding, expected in (("utf-8", b"caf\xe9 \xc3\xa9\n"), ("ascii", rb"caf\udce9 \xe9" + b"\n")):
        done = subprocess.run(
            [sys.executable, "-c", script, b"caf\xe9 \xc3\xa9"],
            capture_output=True,
            check=True,
            env=os.environ | {"PYTHONIOENCODING": coding, "PYTHONUTF8": "1"},
        )
        assert done.stdout == expected


def test_a_reader_that_has_seen_enough_is_told_nothing_and_the_code_is_that_of_a_closed_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-m", "hda", "--help"], stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


# As a process


def test_a_run_in_a_pipe_prints_plain_lines_and_one_object(here):
    words = ["--source", "photos", "--target", "drawings", "--evaluate", "--steps", "3", "--batch", "4", "--out", "run"]
    network = ["--backbone", "small", "--weights", "none", "--size", "32", "--device", "cpu"]
    done = subprocess.run(
        [sys.executable, "-m", "hda", "fit", *words, *network, "--json"], capture_output=True, text=True, check=True
    )
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[0] == "photos->drawings: 12 labelled images of 3 classes, 9 unlabelled ones"
    assert re.match(r"step 3 of 3: classification \d+\.\d+, transfer .*, [\d,.]+ images/s$", lines[1])
    assert re.match(r"step 3 of 3: target accuracy \d+\.\d %$", lines[2])
    found = json.loads(lines[-1])
    assert found["run"] == "run"
    assert (here / "run" / "predictions.csv").is_file()


def test_a_run_on_a_terminal_draws_a_bar(here):
    words = ["--source", "photos", "--target", "flat", "--steps", "3", "--batch", "4", "--out", "run", "--json"]
    network = ["--backbone", "small", "--weights", "none", "--size", "32", "--device", "cpu"]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hda", "fit", *words, *network],
        stdout=theirs,
        stderr=theirs,
        env=os.environ | {"COLUMNS": "90", "TERM": "xterm", "NO_COLOR": "1"},
    )
    os.close(theirs)
    shown = b""
    while chunk := _read(ours):
        shown += chunk
    os.close(ours)
    assert process.wait() == 0
    text = shown.decode()
    assert re.search(r"training \S+ 3/3 [\d,.]+ images/s in \d+ s", text)
    assert re.search(r"classification \d+\.\d+, transfer \d+\.\d+, termination \d+\.\d+", text)
    lines = [line for line in text.replace("\r", "").split("\n") if line]
    assert "".join(lines[lines.index(next(line for line in lines if line.startswith('{"run"'))) :]).endswith("}")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # Linux says so when the other side has closed
        return b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_output_that_finds_no_room_and_output_that_is_closed():
    words = f"{shlex.quote(sys.executable)} -m hda list methods"
    full = subprocess.run(f"{words} > /dev/full", shell=True, capture_output=True, text=True)
    assert (full.returncode, full.stderr.count("\n")) == (2, 1)
    assert full.stderr.startswith("hda: what comes of this cannot be written (No space left on device): make room")
    closed = subprocess.run(f"{words} >&-", shell=True, capture_output=True, text=True)
    assert (closed.returncode, closed.stderr) == (0, "")
