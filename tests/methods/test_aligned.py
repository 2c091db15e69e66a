"""Any head with any alignment: what a method of two parts is, and what becomes of it with another part."""

import dataclasses
import itertools

import pytest
import torch

import hda
from hda import settings as plain
from hda.batch import Losses, Progress
from hda.data.digits import digits
from hda.engine.settings import Settings
from hda.errors import UserError
from hda.methods.aligned import Aligned, merged, method_class
from hda.methods.hdan import HDAN
from hda.registry import registered
from hda.settings import setting

PROGRESS = Progress(torch.tensor(100.0), 1000)
PAIRS = list(itertools.product(registered("heads"), registered("alignments")))
DOMAINS = {"uda": 2, "msda": 4, "ssda": 3}


def build(cls, backbone, setting="uda", classes=4, **settings):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return cls(backbone, classes, DOMAINS[setting], cls.Settings(**settings))


@pytest.fixture(scope="module")
def scenario_of_digits():
    scenario, _ = digits(30)
    return dataclasses.replace(scenario, target=scenario.target.select(range(20)))


@pytest.mark.parametrize(("head", "alignment"), PAIRS)
def test_every_head_goes_with_every_alignment(head, alignment, backbone, make_batch):
    cls = method_class("hdan", head, alignment)
    assert cls.name == f"{head}+{alignment}"
    for kind in sorted(cls.supports):
        method = build(cls, backbone, kind).train()
        batch = make_batch(kind, views=cls.views)
        trained = {name: p for name, p in method.named_parameters() if p.requires_grad}
        reached = set()
        for phase in method.phases():
            losses = phase.losses(batch, PROGRESS)
            assert all(torch.isfinite(value) for value in losses.values())
            moving = {name: p for name, p in trained.items() if name.startswith(phase.updates)}
            found = torch.autograd.grad(losses.total, list(moving.values()), allow_unused=True)
            reached |= {name for name, gradient in zip(moving, found, strict=True) if gradient is not None}
        assert reached == trained.keys()
        assert method.eval()(batch.images[0]).shape == (batch.layout.rows, 4)


@pytest.mark.parametrize("kind", ["uda", "msda", "ssda"])
def test_the_heuristic_head_with_the_adversary_is_hdan_bit_for_bit(kind, backbone, make_batch):
    composed = method_class("source-only", "heuristic", "entropy-adversarial")
    batch, values = make_batch(kind), []
    for cls in (HDAN, composed):
        method = build(cls, backbone, kind).train()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            values.append({name: value.item() for name, value in method.losses(batch, PROGRESS).items()})
    assert values[0] == values[1]


def test_another_part_brings_its_own_settings_and_leaves_the_others():
    s = Settings.given(alignment="mcd", heuristics=2, generator_steps=3)
    assert s.method["heuristics"] == 2
    assert s.method["generator_steps"] == 3
    assert "discriminator_width" not in s.method
    assert Settings.from_dict(s.as_dict()) == s
    with pytest.raises(UserError, match="unknown setting 'discriminator_width'"):
        Settings.given(alignment="mcd", discriminator_width=3)


def test_a_part_that_keeps_values_of_its_methods_goes_by_its_methods_name():
    """Else two compositions whose numbers differ would be one run to a bench, and one line in a table."""
    plain_cdan, plain_cdan_e = (method_class(name, head="plain") for name in ("cdan", "cdan-e"))
    assert (plain_cdan.name, plain_cdan_e.name) == ("plain+conditional-adversarial", "plain+cdan-e")
    assert plain_cdan_e.Settings().entropy_conditioning
    assert [method_class(name, alignment="mcd").name for name in ("mcd", "mdd")] == ["mlp+mcd", "mdd+mcd"]
    found: dict[str, object] = {}
    bases = {name: cls for name, cls in registered("methods").items() if issubclass(cls, Aligned)}
    for name, (head, alignment) in itertools.product(bases, [("plain", None), (None, "mmd"), (None, "adversarial")]):
        cls = method_class(name, head, alignment)
        defaults = [(option.name, option.default) for option in plain.options(cls.Settings)]
        assert found.setdefault(cls.name, defaults) == defaults, f"{name} makes another {cls.name}"


def test_the_revision_of_a_part_is_that_of_whatever_has_it():
    class Changed(registered("alignments")["moments"]):
        revision = 3

    class Has(Aligned):
        head_kind, alignment_kind = registered("heads")["plain"], Changed

    class Tells(Has):
        revision = 7

    assert (HDAN.revision, Has.revision, Tells.revision) == (1, 3, 7)


# An auxiliary head's disparity is of the classifier's decisions, which carry no gradient; none is none
ON_SCORES = [
    name for name, cls in registered("alignments").items() if cls.optimisations == 1 and name not in ("none", "mdd")
]


@pytest.mark.parametrize("head", ["heuristic", "bridge"])
@pytest.mark.parametrize("alignment", ON_SCORES)
def test_hda_takes_every_discrepancy_on_its_scores_so_that_h_learns_of_the_domains(
    head, alignment, backbone, make_batch
):
    """Section 3: the discrepancy is of the classification responses, of which H is a part, as it is not of the features."""
    method, batch = build(method_class("hdan", head, alignment), backbone).train(), make_batch()
    own = method.kind.terms(method.head(method.embed(batch)), batch)
    of_domains = [v for k, v in method.losses(batch, PROGRESS).items() if k != "classification" and k not in own]
    (of_h,) = torch.autograd.grad(torch.stack(of_domains).sum(), [method.head.heuristics.weight])
    assert of_h.any()


def test_an_alignment_may_see_the_backbones_features_instead(backbone, make_batch):
    usual, other = (
        build(method_class("hdan", None, "adversarial"), backbone, aligned_layer=layer)
        for layer in ("transferable", "backbone")
    )
    assert usual.align.discriminator.layers[0].in_features == 4
    assert other.align.discriminator.layers[0].in_features == backbone.width
    loss = other.train().losses(make_batch(), PROGRESS)["transfer"]
    assert torch.autograd.grad(loss, [other.head.heuristics.weight], allow_unused=True) == (None,)


def test_no_alignment_is_an_alignment_of_its_own():
    s = Settings.given(alignment="none")
    assert s.method_class.name == "heuristic+none"
    assert s.method_class.rows == "labelled"
    assert Settings.given(alignment="auto").method_class is HDAN


def test_a_class_of_settings_is_made_once():
    assert method_class("hdan", None, "mcd") is method_class("hdan", None, "mcd")
    assert method_class("hdan") is HDAN


def test_mistakes_are_told_in_one_sentence():
    with pytest.raises(UserError, match=r"^unknown alignment 'entropy-adversary': did you mean 'entropy-adversarial'"):
        method_class("hdan", None, "entropy-adversary")
    with pytest.raises(UserError, match=r"^unknown head 'heuristics': did you mean 'heuristic'"):
        method_class("hdan", "heuristics")
    with pytest.raises(UserError, match=r"^the method se is not made of a head and an alignment: leave --head"):
        method_class("se", "heuristic")


def test_default_values_of_a_method_hold_for_its_parts_alone():
    class Narrow(Aligned):
        head_kind, alignment_kind = HDAN.head_kind, HDAN.alignment_kind
        defaults = {"heuristics": 5, "discriminator_width": 7}  # noqa: RUF012 - declared ClassVar by the base class

    assert (Narrow.Settings().heuristics, Narrow.Settings().discriminator_width) == (5, 7)
    assert Narrow.Settings().termination_weight == HDAN.Settings().termination_weight
    assert [option.help for option in plain.options(Narrow.Settings)] == [
        option.help for option in plain.options(HDAN.Settings)
    ]


def test_settings_of_one_name_and_defaults_of_no_setting_are_refused():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Other:
        heuristics: int = setting(1, "the same name")

    with pytest.raises(TypeError, match="both have a setting 'heuristics'"):
        merged(HDAN.head_kind.Settings, Other, {})
    with pytest.raises(TypeError, match="has a setting 'nothing'"):
        merged(HDAN.head_kind.Settings, HDAN.alignment_kind.Settings, {"nothing": 1})


def test_two_losses_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two losses are named 'transfer'"):
        Losses(transfer=torch.zeros(())).including(Losses(transfer=torch.ones(())))


def test_the_weight_of_the_alignment_scales_its_terms_alone(backbone, make_batch):
    light, heavy = (build(HDAN, backbone, transfer_weight=weight).eval() for weight in (1.0, 2.5))
    before, after = (method.losses(make_batch(), PROGRESS) for method in (light, heavy))
    for name, value in before.items():
        factor = 2.5 if name == "transfer" else 1.0
        torch.testing.assert_close(after[name], factor * value)


def test_hda_over_another_alignment_trains_and_is_read_back(scenario_of_digits, tmp_path):
    options = {"backbone": "small", "weights": "none", "augment": "affine", "steps": 3, "batch": 4, "device": "cpu"}
    run = hda.fit(scenario_of_digits, out=tmp_path / "run", alignment="mcd", generator_steps=1, **options)
    assert run.result["method"] == "heuristic+mcd"
    assert "heuristic+mcd" in repr(run)
    assert len(hda.Run(tmp_path / "run").predict(scenario_of_digits.target)) == len(scenario_of_digits.target)
