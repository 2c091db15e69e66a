"""Fake runs: folders as `hda fit` leaves them, filled without training."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from hda.engine.run import Run

VOID = {"meta", "br", "img", "link", "hr", "input"}


class Parsed(HTMLParser):
    """The page's tags, cells and text; fails where a tag is closed that is not the open one."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self.ids: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._seen(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._seen(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data

    def _seen(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def row(self, first: str) -> list[str]:
        """The cells of the row that begins so, with plain spaces."""
        found = [[cell.replace("\u00a0", " ") for cell in row] for row in self.rows if row[0] == first]
        assert len(found) == 1, f"{len(found)} rows begin with {first!r}"
        return found[0]


def check_page(page: str) -> Parsed:
    """Balanced tags, nothing from outside, every identifier once and every reference to one that is there."""
    parsed = Parsed(page)
    assert page.startswith("<!DOCTYPE html>")
    assert "http:" not in page
    assert "https:" not in page
    assert "@import" not in page
    names = {tag for tag, _ in parsed.tags}
    assert not names & {"script", "link", "iframe", "object", "embed", "foreignobject", "metadata"}
    assert sum(tag == "h1" for tag, _ in parsed.tags) == 1
    for tag, attributes in parsed.tags:
        for name in ("src", "href", "xlink:href", "data"):
            assert (attributes.get(name) or "#").startswith(("#", "data:image/png;base64,"))
        assert not any(name.startswith("on") for name in attributes)
        if tag == "img":
            assert attributes["alt"]
        if tag == "svg":
            assert attributes["role"] == "img"
    assert sum(tag == "svg" for tag, _ in parsed.tags) == sum(tag == "title" for tag, _ in parsed.tags) - 1
    assert len(set(parsed.ids)) == len(parsed.ids)
    for _, attributes in parsed.tags:
        href = attributes.get("href")
        if href and href.startswith("#"):
            assert href[1:] in parsed.ids
    return parsed


@pytest.fixture
def checked() -> Callable[[str], Parsed]:
    return check_page


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Run]:
    def make(
        method: str = "hdan",
        seed: int = 0,
        accuracy: float | None = 90.0,
        *,
        classes: Sequence[str] = ("a", "b", "c"),
        steps: int = 60,
        finished: bool = True,
        records: list[dict[str, Any]] | None = None,
        predictions: Sequence[tuple[str, str, float]] = (),
        description: dict[str, Any] | None = None,
    ) -> Run:
        path = tmp_path / f"{method}-{seed}"
        path.mkdir()
        settings = {
            "fit": {
                "method": method,
                "backbone": "small",
                "weights": f"{tmp_path}/w.pth",
                "steps": steps,
                "seed": seed,
            },
            "method": {"heuristics": 3} if method == "hdan" else {},
            "recipe": {"lr": 0.001},
        }
        images = {"source": 4000, "labelled": 0, "target": 1797}
        described = {
            "hda": "0.1.0",
            "task": "typed->handwritten",
            "setting": "uda",
            "settings": settings,
            "backbone": {"name": "small", "size": 32, "mean": [0.5] * 3, "std": [0.5] * 3, "strides": None},
            "classes": list(classes),
            "domains": 2,
            "images": images,
            "fingerprint": "0" * 64,
            "origin": {"source": f"{tmp_path}/typed"},
        }
        (path / "settings.json").write_text(json.dumps(described | (description or {})), encoding="utf-8")
        lines = _records(method, accuracy, steps) if records is None else records
        (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        if finished:
            result = {
                "task": "typed->handwritten",
                "setting": "uda",
                "method": method,
                "target_accuracy": accuracy,
                "mean_class_accuracy": None if accuracy is None else accuracy - 1,
                "steps": steps,
                "resumed_from": None,
                "seconds": 61.25,
                "images": images,
                "domains": 2,
                "device": "cpu",
                "precision": "fp32",
                "versions": {"hda": "0.1.0", "torch": "2.11.0"},
            }
            (path / "result.json").write_text(json.dumps(result), encoding="utf-8")
        if predictions:
            rows = ["path,class,confidence", *(f'{name},"{label}",{value:.6f}' for name, label, value in predictions)]
            (path / "predictions.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        return Run(path)

    return make


def _records(method: str, accuracy: float | None, steps: int) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for step in (1, *range(20, steps + 1, 20)):
        line = {"step": step, "lr": 0.01, "classification": 2.0 / step, "total": 3.0 / step}
        if method == "hdan":
            line |= {"transfer": 0.69, "termination": 0.5 / step, "similarity": 1.0 / step, "independence": 0.4 / step}
            line |= {"heuristic": 0.5 / step}
        lines.append(line | {"seconds": 0.1 * step, "images_per_second": 100.0})
        if accuracy is not None and step > 1:
            lines.append({"step": step, "target_accuracy": accuracy - 1 / step, "mean_class_accuracy": accuracy - 2})
    return lines
