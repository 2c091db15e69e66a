"""Figures of the paper's published code on fixed tensors (`golden/` in the shared data), dropout off.

The published discriminator counts its calls only while it trains, so with dropout off its reversal is that of the same
iteration as the entropy's; in training it is one ahead (`tests/alignments` has that). Here both are held at the iteration.
"""

import json

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from hda.alignments import entropy_adversarial
from hda.batch import Batch, Layout, Progress
from hda.losses import independence, kurtosis, similarity
from hda.methods.hdan import HDAN
from hda.nn import Heuristic, HeuristicHead, reversal_coefficient

CASES = ["uda", "uda_early", "ssda", "msda"]
TRANSFER = {"uda": 0.7262840270996094, "uda_early": 0.7364544868469238, "ssda": 2.290154218673706}
TRANSFER["msda"] = 3.0039162635803223
TERMINATION = {"uda": 0.43193355202674866, "uda_early": 0.39955803751945496, "ssda": 0.21779735386371613}
TERMINATION["msda"] = 0.3914340138435364
ITERATION = {"uda": 2500, "uda_early": 1, "ssda": 2500, "msda": 7000}
ROWS = {"uda": (8, 0, 8), "uda_early": (8, 0, 8), "ssda": (6, 6, 6), "msda": (12, 0, 5)}
DOMAINS = {"uda": 2, "uda_early": 2, "ssda": 3, "msda": 4}
CLASSES, WIDTH = 13, 64

REVERSAL = {
    0: 0.0,
    1: 0.0004999999583332748,
    10: 0.00499995833375011,
    100: 0.049958374957880025,
    1000: 0.4621171572600098,
    2500: 0.8482836399575131,
    5000: 0.9866142981514305,
    6001: 0.9950596842518111,
    10000: 0.9999092042625952,
    20003: 0.999999995890041,
    50003: 1.0,
}
HEAD_STD = {0: 0.03125075623393059, 1: 0.02209690399467945, 2: 0.013970441184937954}
HEAD_STD |= {3: 0.009880993515253067, 4: 0.0075806183740496635, 100: 0.0003124450158793479}
WATCH = {"kurtosis_g": 2.935762643814087, "kurtosis_f": 2.7817959785461426}
WATCH |= {"gap": 0.15396666526794434, "mean_abs_cosine": 0.19062946736812592}

# Where the published code's discriminator has its layers, and where ours has them
LAYERS = {"ad_layer1": "layers.0", "ad_layer2": "layers.3", "ad_layer3": "layers.6"}


@pytest.fixture(scope="module")
def figures(shared_data):
    return load_file(shared_data / "golden" / "published_code.safetensors")


@pytest.fixture(scope="module")
def described(shared_data):
    return json.loads((shared_data / "golden" / "published_code.json").read_text(encoding="utf-8"))


class Given(nn.Module):
    """In a head's place: these very F and H, whatever the features are."""

    def __init__(self, fundament, heuristic):
        super().__init__()
        self.f, self.h = nn.Parameter(fundament), nn.Parameter(heuristic)

    def forward(self, features):
        assert len(features) == len(self.f)
        return Heuristic(self.f - self.h, self.f, self.h)


def prepare(figures, case, backbone, **settings) -> tuple[HDAN, Batch, Progress]:
    """HDAN with the case's F, H and discriminator, a batch of its rows, and its iteration."""
    layout = Layout(*ROWS[case])
    method = HDAN(backbone, CLASSES, DOMAINS[case], HDAN.Settings(discriminator_width=WIDTH, **settings)).eval()
    method.head = Given(figures[f"{case}.fundament"], figures[f"{case}.heuristic"])
    weights = {
        f"{ours}.{kind}": figures[f"{case}.discriminator.{theirs}.{kind}"]
        for theirs, ours in LAYERS.items()
        for kind in ("weight", "bias")
    }
    method.align.discriminator.load_state_dict(weights)
    source = torch.full((layout.source,), DOMAINS[case] - 1)
    if case == "msda":
        source = 1 + figures["msda.source_domains"]  # source i is the discriminator's class i + 1
    domains = torch.cat([source, torch.ones(layout.labelled_target, dtype=torch.int64), torch.zeros(layout.target)])
    batch = Batch((torch.zeros(layout.rows, 3, 8, 8),), torch.zeros(layout.labelled).long(), domains.long(), layout)
    return method, batch, Progress(torch.tensor(float(ITERATION[case])), 100_000)


def assert_near(got, expected):
    """Equal to a few units of float32, as seen from the largest value."""
    assert expected.abs().max() > 0
    torch.testing.assert_close(got, expected, rtol=2e-5, atol=1e-6 * expected.abs().max().item())


@pytest.mark.parametrize("case", CASES)
def test_transfer_and_termination_have_the_published_values(case, figures, backbone):
    method, batch, progress = prepare(figures, case, backbone)
    losses = method.losses(batch, progress)
    assert losses["transfer"].item() == pytest.approx(TRANSFER[case], rel=2e-6)
    assert losses["termination"].item() == pytest.approx(TERMINATION[case], rel=2e-6)


@pytest.mark.parametrize("case", CASES)
def test_transfer_has_the_published_gradients(case, figures, backbone, monkeypatch):
    method, batch, progress = prepare(figures, case, backbone)
    held = reversal_coefficient(progress.iteration)
    asked = []
    monkeypatch.setattr(entropy_adversarial, "reversal_coefficient", lambda i, horizon: asked.append(i.item()) or held)
    method.losses(batch, progress)["transfer"].backward()
    assert asked == [ITERATION[case], ITERATION[case] + 1]
    assert_near(method.head.f.grad, figures[f"{case}.grad_of_transfer.fundament"])
    assert_near(method.head.h.grad, figures[f"{case}.grad_of_transfer.heuristic"])
    parameters = dict(method.align.discriminator.named_parameters())
    assert len(parameters) == 6
    for theirs, ours in LAYERS.items():
        for kind in ("weight", "bias"):
            expected = figures[f"{case}.grad_of_transfer.discriminator.{theirs}.{kind}"]
            assert_near(parameters[f"{ours}.{kind}"].grad, expected)


@pytest.mark.parametrize("case", CASES)
def test_termination_has_the_published_gradient(case, figures, backbone):
    method, batch, progress = prepare(figures, case, backbone)
    method.losses(batch, progress)["termination"].backward()
    assert_near(method.head.h.grad, figures[f"{case}.grad_of_termination.heuristic"])
    assert method.head.f.grad is None


@pytest.mark.parametrize(("case", "factor"), [("uda", 2), ("uda_early", 2), ("ssda", 3 / 2), ("msda", 1)])
def test_the_texts_reading_of_the_published_case(case, factor, figures, backbone):
    method, batch, progress = prepare(figures, case, backbone, transfer_scale="text", termination_scale="text")
    losses = method.losses(batch, progress)
    assert losses["transfer"].item() == pytest.approx(factor * TRANSFER[case], rel=2e-6)
    halved = 2 if case == "ssda" else 1
    assert losses["termination"].item() == pytest.approx(halved * CLASSES * TERMINATION[case], rel=2e-6)


def test_watched_quantities_have_the_published_values(figures):
    g, h = figures["watch.g"], figures["watch.h"]
    assert kurtosis(g).abs().mean().item() == pytest.approx(WATCH["kurtosis_g"], rel=2e-6)
    assert kurtosis(g + h).abs().mean().item() == pytest.approx(WATCH["kurtosis_f"], rel=2e-6)
    assert independence(g, g + h).item() == pytest.approx(WATCH["gap"], rel=2e-5)
    assert similarity(g, h).item() == pytest.approx(WATCH["mean_abs_cosine"], rel=2e-6)


@pytest.mark.parametrize(("iteration", "expected"), REVERSAL.items())
def test_the_reversal_coefficient_is_the_published_one(iteration, expected):
    got = reversal_coefficient(torch.tensor(float(iteration)))
    assert got.item() == pytest.approx(expected, rel=1e-6, abs=0)


@pytest.mark.parametrize("slope", [0, 1, 2, 3, 4])
def test_heuristics_start_as_wide_as_in_the_published_code(slope):
    torch.manual_seed(slope)
    blocks = HeuristicHead(2048, 65, heuristics=5).heuristics.weight.split(65)
    # 133,120 values: their deviation is known to 0.2 %, ours and the published figure each
    assert blocks[slope].std().item() == pytest.approx(HEAD_STD[slope], rel=0.01)
    assert abs(blocks[slope].mean().item()) < 0.02 * HEAD_STD[slope]


@pytest.mark.parametrize("slope", [0, 100])
def test_the_fundament_starts_as_wide_as_in_the_published_code(slope):
    torch.manual_seed(slope)
    head = HeuristicHead(2048, 65, fundament_slope=slope)
    assert head.fundament.weight.std().item() == pytest.approx(HEAD_STD[slope], rel=0.01)
    assert head.fundament.bias.abs().max() == 0


def test_the_figures_copied_here_are_those_of_the_shared_data(described):
    for case in CASES:
        entry = described[case]
        assert (entry["transfer"], entry["termination"]) == (TRANSFER[case], TERMINATION[case])
        assert (entry["iteration"], tuple(entry["rows"])) == (ITERATION[case], ROWS[case])
        assert entry["reversal"] == REVERSAL.get(ITERATION[case], entry["reversal"])
        assert entry["outputs"] == (1 if DOMAINS[case] == 2 else DOMAINS[case])
    assert {int(key): value for key, value in described["reversal_coefficient"].items()} == REVERSAL
    assert described["watch"] == WATCH
    assert {int(key[1:]): value for key, value in described["head_weight_std_at_fan_in_2048"].items()} == HEAD_STD
