import json

import pytest
import torch

NAMED = {"ours", "bare", "plain_loop", "ratio_bare", "ratio_plain", "peak_memory", "device"}


def test_a_busy_machine_is_told(hda, monkeypatch):
    words = ["--pictures", 24, "--batch", 4, "--seconds", 0.1, "--device", "cpu", "--method", "mcd", "--json"]
    for load in (1e4, 0.0):
        monkeypatch.setattr("os.getloadavg", lambda load=load: (load, 0.0, 0.0))
        told = hda("speed", *words)
        assert told.json["load"] == load
        assert ("The machine was busy" in told.out) is bool(load)


def test_the_row_of_the_demo_s_network(hda, tmp_path):
    torch.set_float32_matmul_precision("highest")
    file = tmp_path / "speed.jsonl"
    words = ["--pictures", 24, "--batch", 4, "--seconds", 0.2, "--device", "cpu", "--out", file]
    told = [hda("speed", "--json", *words) for _ in range(2)]
    row = told[0].json
    assert row.keys() >= NAMED | {"backbone", "batch", "precision", "method", "heuristics", "torch"}
    assert row["ratio_bare"] == pytest.approx(row["ours"] / row["bare"], abs=1e-3)
    assert row["ratio_plain"] == pytest.approx(row["ours"] / row["plain_loop"], abs=1e-3)
    assert (row["backbone"], row["batch"], row["precision"], row["device"]) == ("small", 4, "fp32", "cpu")
    assert (row["method"], row["heuristics"], row["size"]) == ("hdan", 3, 32)
    assert row["peak_memory"] > 2**26
    assert sum(row["share"].values()) == pytest.approx(1.0, abs=1e-3)
    assert all(0 < share < 1 for share in row["share"].values())
    assert [json.loads(line) for line in file.read_text().splitlines()] == [each.json for each in told]
    assert "this step" in told[0].out
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--batch", 0], "--batch must be at least 1: got 0"),
        (["--seconds", "x"], "--seconds takes a number: got 'x'"),
        (["--method", "mcd", "--heuristics", 2], "--heuristics is not a setting of the method mcd: leave it out"),
        (["--out", "rows.txt"], "--out rows.txt is no .jsonl file, to which a line could be added: give such a name"),
        (["--out", "gone/rows.jsonl"], "the folder gone of --out gone/rows.jsonl does not exist: make it first"),
    ],
)
def test_mistakes(hda, words, sentence):
    assert hda("speed", *words).sentence == sentence
