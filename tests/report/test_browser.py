"""The pages in a real browser: they load without errors or requests, are wide enough nowhere, and can be read by all."""

import html
import itertools
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import hda
from hda.data.digits import digits
from hda.report.figures import figures
from hda.report.run import run_page
from hda.report.runs import runs_page
from hda.report.subject import gather

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--enable-logging=stderr",
)
QUICK = {
    "backbone": "small",
    "weights": "none",
    "augment": "affine",
    "steps": 4,
    "batch": 8,
    "log_every": 1,
    "evaluate_every": 2,
    "checkpoint_every": 4,
    "device": "cpu",
}
MEASURE = """
<script>
const refused = [];
const errors = [];
addEventListener('securitypolicyviolation', e => refused.push(e.blockedURI));
addEventListener('error', e => errors.push(String(e.message)));
function light(colour) {
  const part = colour.match(/[\\d.]+/g).slice(0, 3).map(Number).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4));
  return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
}
function ground(element) {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (!colour.startsWith('rgba(0, 0, 0, 0')) return colour;
  }
  return 'rgb(255, 255, 255)';
}
function contrast(element) {
  const [a, b] = [light(getComputedStyle(element).color), light(ground(element))].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
}
addEventListener('load', () => {
  document.querySelectorAll('details').forEach(d => { d.open = true; });
  const all = [...document.querySelectorAll('*')];
  const boxes = [...document.querySelectorAll('main svg, main img')].map(e => e.getBoundingClientRect());
  const stops = [...document.querySelectorAll('a[href], summary, [tabindex="0"]')];
  const scrolls = all.filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === 'auto');
  const said = [...document.querySelectorAll('h1, h2, h3, p, th, td, a, summary, figcaption, footer, li, code')];
  const found = {
    width: innerWidth,
    page: document.documentElement.scrollWidth,
    dark: matchMedia('(prefers-color-scheme: dark)').matches,
    ground: getComputedStyle(document.body).backgroundColor,
    drawings: boxes.length,
    unseen: boxes.filter(b => b.width < 40 || b.height < 20).length,
    outside: boxes.filter(b => b.left < 0).length,
    stops: stops.length,
    unreached: stops.filter(e => { e.focus(); return document.activeElement !== e || e.tabIndex !== 0; }).length,
    unmarked: stops.filter(e => { e.focus(); return getComputedStyle(e).outlineStyle === 'none'; }).length,
    stuck: scrolls.filter(e => e.tabIndex !== 0).length,
    headings: [...document.querySelectorAll('h1, h2, h3, h4')].map(e => Number(e.tagName[1])),
    nameless: [...document.querySelectorAll('img')].filter(e => !e.alt).length
      + [...document.querySelectorAll('svg')].filter(e => e.getAttribute('role') !== 'img' || !e.querySelector('title'))
        .length
      + [...document.querySelectorAll('[role="region"], nav')].filter(e => !e.getAttribute('aria-label')).length
      + [...document.querySelectorAll('th')].filter(e => !e.scope).length,
    language: document.documentElement.lang,
    contrast: Math.min(...said.map(contrast)),
    fetched: performance.getEntriesByType('resource').map(e => e.name).filter(n => !n.startsWith('data:')),
    refused: refused,
    errors: errors,
  };
  parent.postMessage(JSON.stringify(found), '*');
});
</script>
"""
# A browser without a window is at least 500 pixels wide, a frame in it may be narrower.
FRAME = """<!DOCTYPE html><meta name="color-scheme" content="light dark"><pre></pre>
<script>addEventListener('message', e => { document.querySelector('pre').textContent = e.data; });</script>
<iframe src="page.html" width="WIDTH" height="844" style="border: 0"></iframe>
"""


@pytest.fixture(scope="module")
def browser() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser is installed: put {' or '.join(BROWSERS)} on the PATH")
    return found


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, str]:
    """The page of one run and that of three, of real ones on a few digits."""
    scenario, answers = digits()
    random = np.random.default_rng(0)
    source, target = (np.sort(random.permutation(count)[:60]) for count in (len(scenario.sources[0]), len(answers)))
    few = hda.Scenario((scenario.sources[0].select(source),), scenario.target.select(target), classes=scenario.classes)
    known = answers.select(target)
    out = tmp_path_factory.mktemp("runs")
    runs = [
        hda.fit(few, evaluate=known, out=out / f"{method}-{seed}", method=method, seed=seed, **QUICK, **more)
        for method, seed, more in (
            ("source-only", 0, {}),
            ("hdan", 0, {"keep_checkpoints": True}),
            ("hdan", 1, {"keep_checkpoints": True}),
        )
    ]
    subjects = gather(runs, limit=40, given=(few, known))
    return {
        "several": runs_page(subjects, figures(subjects)),
        "one": run_page(runs[1], figures=figures(subjects[1:2])),
    }


def opened(browser: str, page: str, folder: Path, width: int, dark: bool) -> dict:
    """What the browser finds in a copy of the page that measures itself; the copy may run that script and no more."""
    flags = ("--window-size=1300,900", f"--blink-settings=preferredColorScheme={0 if dark else 1}")
    strict = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert strict in page
    copy, frame = folder / "page.html", folder / "frame.html"
    frame.write_text(FRAME.replace("WIDTH", str(width)), encoding="utf-8")
    text = page.replace(strict, f"{strict}; script-src 'unsafe-inline'").replace("</head>", f"{MEASURE}</head>")
    copy.write_text(text, encoding="utf-8")
    profile = folder / "profile"
    environment = os.environ | {"HOME": str(folder)}
    done = subprocess.run(
        [browser, *FLAGS, *flags, f"--user-data-dir={profile}", "--dump-dom", frame.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env=environment,
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    measured = re.search(r"<pre>(.+?)</pre>", done.stdout, re.DOTALL)
    assert measured, done.stdout[-500:]
    return json.loads(html.unescape(measured[1]))


@pytest.mark.parametrize("which", ["several", "one"])
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)], ids=["light", "dark-phone"])
def test_a_page_in_a_browser(browser, pages, tmp_path, which, width, dark):
    found = opened(browser, pages[which], tmp_path, width, dark)
    assert (found["errors"], found["refused"], found["fetched"]) == ([], [], [])
    assert found["width"] == width
    assert found["page"] <= found["width"]
    assert found["dark"] is dark
    assert found["ground"] == ("rgb(20, 24, 31)" if dark else "rgb(246, 247, 249)")
    assert found["drawings"] >= 10
    assert (found["unseen"], found["outside"]) == (0, 0)
    assert found["stops"] >= 5
    assert (found["unreached"], found["unmarked"], found["stuck"], found["nameless"]) == (0, 0, 0, 0)
    levels = found["headings"]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert found["language"] == "en"
    assert found["contrast"] >= 4.5


def test_the_measuring_finds_what_is_wrong(browser, tmp_path):
    """A page with every mistake, so that the measures above are known to see them."""
    wrong = (
        '<!DOCTYPE html><html><head><meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        "</head><body><main><h1>a</h1><h3>b</h3><p style='color: #ccc; background: #fff'>faint</p>"
        "<div style='width: 2000px'>wide</div><div style='overflow-x: auto; width: 90px'><p style='width: 900px'>c</p></div>"
        "<img src='data:image/png;base64,AAAA' width='1' height='1'><a href='#x' style='outline: none'>d</a>"
        "<script>undefinedName()</script></main></body></html>"
    )
    copy = tmp_path / "wrong"
    copy.mkdir()
    with pytest.raises(AssertionError, match="undefinedName"):
        opened(browser, wrong, copy, 390, True)
    found = opened(browser, wrong.replace("<script>undefinedName()</script>", ""), copy, 390, True)
    assert found["page"] > found["width"]
    assert (found["unseen"], found["stuck"], found["unmarked"], found["nameless"]) == (1, 1, 1, 1)
    assert found["headings"] == [1, 3]
    assert found["contrast"] < 2
    assert found["language"] == ""
