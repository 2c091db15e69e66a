"""Everything that decides a run besides its data: the settings of `fit`, of the method and of the recipe."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

from hda import settings as plain
from hda.batch import Layout
from hda.data.scenario import Scenario
from hda.errors import SettingError, unknown
from hda.methods.aligned import method_class
from hda.methods.base import Method
from hda.recipes.base import Recipe
from hda.registry import lookup
from hda.selection import validator
from hda.selection.hold_out import SHARE
from hda.settings import setting


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """The settings of a run that belong neither to a method nor to a recipe."""

    method: str = setting("hdan", "domain adaptation method (`hda list methods`)")
    head: str | None = setting(None, "another head than the method's (`hda list heads`; auto: the method's)")
    alignment: str | None = setting(
        None, "another alignment than the method's (`hda list alignments`; auto: the method's)"
    )
    backbone: str = setting("tf_efficientnet_lite0", "any timm or torchvision model (`hda list backbones`)")
    weights: str = setting("pretrained", "pretrained, none (random values), or a .safetensors or .pth file")
    strides: Literal["v1", "v1.5"] | None = setting(
        None, "where a weights file's ResNet bottlenecks stride (auto: as it says)"
    )
    recipe: str = setting("sgd", "optimiser and schedule (`hda list recipes`)")
    steps: int | None = setting(None, "updates of the whole run (auto: the recipe's)")
    batch: int | None = setting(
        None, "pictures of each source, and of the labelled target, in a step (auto: the recipe's)"
    )
    target_batch: int | None = setting(None, "pictures of the unlabelled target in a step (auto: as batch)")
    mixing: Literal["random", "balanced"] = setting("random", "how several sources share a step")
    seed: int = setting(0, "seed of everything random")
    size: int | None = setting(None, "edge of the pictures that the backbone sees (auto: the backbone's)")
    augment: Literal["crop-flip", "resized-crop", "colour", "affine", "none"] = setting(
        "crop-flip", "how training pictures are varied"
    )
    device: str = setting("auto", "auto, cpu, cuda or cuda:N")
    precision: Literal["auto", "fp32", "tf32", "bf16"] = setting(
        "auto", "arithmetic (auto: bf16 on a GPU, fp32 on a CPU)"
    )
    graph: bool = setting(True, "replay the step as one CUDA graph where there is a GPU")
    compile: bool | None = setting(None, "compile the backbone (auto: on a GPU, for runs of 1,000 steps or more)")
    sync_batch_norm: bool = setting(
        False, "with several processes: batch statistics over the rows of all, not of each apart"
    )
    resident: float | None = setting(None, "GiB of pictures to keep on the GPU (auto: what fits); the rest is streamed")
    log_every: int = setting(20, "steps between two lines of metrics")
    evaluate_every: int = setting(
        500, "steps between two measurements: of target accuracy with --evaluate, by --select"
    )
    checkpoint_every: int = setting(500, "steps between two checkpoints")
    select: str | None = setting(
        None, "validator that chooses among the states measured, without target labels (`hda list validators`)"
    )
    keep_checkpoints: bool = setting(False, "keep the weights of every state measured (every evaluate_every steps)")
    source_hold_out: float | None = setting(
        None,
        "share of each class of the source that is held out of training (auto: 0.1 if the validator needs it, or 0)",
    )

    def __post_init__(self) -> None:
        names = ("steps", "batch", "target_batch", "size", "log_every", "evaluate_every", "checkpoint_every")
        plain.at_least(1, **{name: getattr(self, name) for name in names})
        plain.at_least(0, resident=self.resident)
        plain.between(0, 0.5, source_hold_out=self.source_hold_out)
        plain.between(0, 2**63 - 1, seed=self.seed)


@dataclass(frozen=True)
class Settings:
    """All settings of a run."""

    fit: FitSettings = FitSettings()
    method: dict[str, Any] = field(default_factory=dict)
    recipe: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def given(cls, **options: Any) -> Settings:
        """Settings from options by name: each goes to `fit`, to the method or to the recipe, whichever knows it.

        Raises:
            UserError: nobody knows an option, or a value does not fit.
        """
        known = {option.name for option in plain.options(FitSettings)}
        fit = plain.build(FitSettings, {name: value for name, value in options.items() if name in known})
        rest = {name: value for name, value in options.items() if name not in known}
        method = method_class(fit.method, fit.head, fit.alignment).Settings
        recipe = lookup("recipes", fit.recipe).Settings
        of_method = {option.name for option in plain.options(method)}
        of_recipe = {option.name for option in plain.options(recipe)}
        for name in rest:
            if name not in of_method | of_recipe:
                raise unknown("setting", name, known | of_method | of_recipe)
        return cls(
            fit,
            plain.as_dict(plain.build(method, {name: value for name, value in rest.items() if name in of_method})),
            plain.as_dict(plain.build(recipe, {name: value for name, value in rest.items() if name in of_recipe})),
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Settings:
        """The settings that `as_dict` gave, checked."""
        return cls.given(**data["fit"], **data["method"], **data["recipe"])

    def as_dict(self) -> dict[str, Any]:
        return {"fit": plain.as_dict(self.fit), "method": self.method, "recipe": self.recipe}

    def flat(self) -> dict[str, Any]:
        """All settings by name."""
        return {**plain.as_dict(self.fit), **self.method, **self.recipe}

    @property
    def method_class(self) -> type[Method]:
        return method_class(self.fit.method, self.fit.head, self.fit.alignment)

    def build_recipe(self, setting: str) -> Recipe:
        cls: type[Recipe] = lookup("recipes", self.fit.recipe)
        return cls(setting, plain.build(cls.Settings, self.recipe))

    def resolve(self, scenario: Scenario) -> Settings:
        """These settings with every "auto" that depends on the scenario filled in."""
        budget = self.build_recipe(scenario.setting).budget
        batch = self.fit.batch or budget.batch
        fit = dataclasses.replace(
            self.fit, steps=self.fit.steps or budget.steps, batch=batch, target_batch=self.fit.target_batch or batch
        )
        return dataclasses.replace(self, fit=dataclasses.replace(fit, source_hold_out=self.share_held_out()))

    def share_held_out(self) -> float:
        """The share of the source that is held out.

        Raises:
            UserError: there is no such validator, or it needs what is refused.
        """
        share = self.fit.source_hold_out
        needed = self.fit.select is not None and "held_out" in validator(self.fit.select).needs
        if needed and share == 0:
            raise SettingError(
                "source_hold_out", f"must be above 0 for the validator {self.fit.select}: give 0.1, or another --select"
            )
        return share if share is not None else SHARE if needed else 0.0

    def layout(self, scenario: Scenario) -> Layout:
        """Rows of a batch: `batch` a source, `batch` of the labelled target, `target_batch` of the target."""
        fit = self.resolve(scenario).fit
        batch, target = fit.batch or 0, fit.target_batch or 0
        return Layout(
            source=batch * len(scenario.sources),
            labelled_target=batch if scenario.labelled else 0,
            target=0 if self.method_class.rows == "labelled" else target,
        )
