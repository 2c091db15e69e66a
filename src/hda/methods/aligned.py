"""What most methods of the literature are: a head and an alignment."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

from torch import Tensor

from hda.alignments.base import Alignment, Place, Seen
from hda.batch import Batch, Losses, Progress
from hda.errors import UserError
from hda.heads.base import Head
from hda.losses import cross_entropy
from hda.methods.base import Method, Phase
from hda.nn.norm import Groups, convert
from hda.registry import lookup


class Aligned(Method):
    """Classification of the labelled rows, an alignment of the domains, and whatever constraints the head comes with.

    A subclass names its head and its alignment, and other default values of their settings where its paper has them:

    >>> from hda.alignments import EntropyConditionedAdversary
    >>> from hda.heads.plain import Plain
    >>> class PlainHDAN(Aligned):
    ...     head_kind, alignment_kind = Plain, EntropyConditionedAdversary
    ...     defaults = {"discriminator_width": 256}
    """

    head_kind: ClassVar[type[Head]]
    alignment_kind: ClassVar[type[Alignment]]
    defaults: ClassVar[Mapping[str, Any]] = {}  # of settings of the head and the alignment, where they differ

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if hasattr(cls, "head_kind") and hasattr(cls, "alignment_kind"):
            cls.Settings = merged(cls.head_kind.Settings, cls.alignment_kind.Settings, cls.defaults)  # type: ignore[misc]
            for told in ("rows", "optimisations", "supports"):
                if told not in vars(cls):
                    setattr(cls, told, getattr(cls.alignment_kind, told))
            if "revision" not in vars(cls):  # raised with that of either part
                cls.revision = cls.head_kind.revision + cls.alignment_kind.revision - 1

    def build(self, width: int, classes: int, domains: int) -> None:
        self.kind = self.head_kind(self.settings)
        self.head = self.kind.build(width, classes)
        place = Place(
            self.kind.width(width, classes), classes, domains, lambda: self.kind.build(width, classes), read=self.logits
        )
        self.align = self.alignment_kind.of(place, self.settings)
        self.groups = Groups()  # a head with batch norm sees labelled and target rows apart, as the backbone does
        convert(self.head, self.groups)

    def losses(self, batch: Batch, progress: Progress) -> Losses:
        rows = batch.labelled if self.rows == "labelled" else slice(None)
        features = self.embed(batch, rows)
        with self.groups.of(batch.layout.statistics(rows)):
            out = self.head(features)
        scores = self.kind.read(out, features)
        losses = Losses(classification=cross_entropy(scores.logits[batch.labelled], batch.labels))
        terms = self.align.terms(Seen(scores.logits, scores.features, features, batch, progress))
        weighted = Losses(**{name: self.settings.transfer_weight * value for name, value in terms.items()})
        return losses.including(weighted.watching(**terms.watched)).including(self.kind.terms(out, batch))

    def phases(self) -> Sequence[Phase]:
        return self.align.phases(self) or super().phases()

    def classify(self, features: Tensor) -> Tensor:
        return self.align.classify(self.logits(self.head(features), features), features, self._read(features))

    def logits(self, out: Any, features: Tensor) -> Tensor:
        """The class scores in what a head of the method's kind made of the features."""
        return self.kind.read(out, features).logits

    def _read(self, features: Tensor) -> Any:
        return lambda out: self.logits(out, features)


def method_class(name: str, head: str | None = None, alignment: str | None = None) -> type[Method]:
    """The method of that name, or what it becomes with another head or another alignment.

    `method_class("hdan", alignment="mmd")` is Heuristic Domain Adaptation over MMD; it is called "heuristic+mmd". A part
    that keeps values of its method's goes by the method's name: `method_class("cdan-e", head="plain")` is "plain+cdan-e".

    Raises:
        UserError: there is no such method, head or alignment, or the method is not made of a head and an alignment.
    """
    base: type[Method] = lookup("methods", name)
    if head is None and alignment is None:
        return base
    if not issubclass(base, Aligned):
        raise UserError(
            f"the method {name} is not made of a head and an alignment: leave --head and --alignment out, or give "
            "--method hdan with them"
        )
    kind = base.head_kind if head is None else lookup("heads", head)
    align = base.alignment_kind if alignment is None else lookup("alignments", alignment)
    return _composed(base, kind, align)  # type: ignore[arg-type] # classes can be hashed


@cache
def _composed(base: type[Aligned], kind: type[Head], align: type[Alignment]) -> type[Aligned]:
    same = {cls.name for cls in (base.head_kind, base.alignment_kind)} & {kind.name, align.name}
    # The paper's own values go with its head or its alignment; another one comes with values of its own.
    kept = {key: value for key, value in base.defaults.items() if _of(base, key).name in same}
    owners = {_of(base, key) for key in kept}
    head_name, align_name = (base.name if part in owners else part.name for part in (kind, align))
    members = {
        "__doc__": f"The head {kind.name} with the alignment {align.name}: {kind.summary}; {align.summary}.",
        "__module__": base.__module__,
        "head_kind": kind,
        "alignment_kind": align,
        "defaults": kept,
        "reference": base.reference,
        "name": f"{head_name}+{align_name}",
    }
    return type(f"{kind.__name__}With{align.__name__}", (Aligned,), members)


def merged(head: type[Any], alignment: type[Any], defaults: Mapping[str, Any]) -> type[Any]:
    """One class of settings from a head's and an alignment's, with other default values where they are given."""
    fields: dict[str, tuple[str, Any, dataclasses.Field[Any]]] = {}
    hints: dict[str, Any] = {}
    for part in (head, alignment):
        known = typing.get_type_hints(part)
        for field in dataclasses.fields(part):
            if field.name in fields:
                raise TypeError(f"head and alignment both have a setting {field.name!r}")
            default = defaults.get(field.name, field.default)
            made = dataclasses.field(default=default, metadata=field.metadata)
            fields[field.name] = (field.name, known[field.name], made)
            hints[field.name] = known[field.name]
    strange = defaults.keys() - fields.keys()
    if strange:
        raise TypeError(f"neither head nor alignment has a setting {sorted(strange)[0]!r}")

    def check(self: Any) -> None:
        for part in (head, alignment):
            part(**{field.name: getattr(self, field.name) for field in dataclasses.fields(part)})

    return dataclasses.make_dataclass(
        "Settings", fields.values(), namespace={"__post_init__": check}, frozen=True, kw_only=True
    )


def _of(base: type[Aligned], setting: str) -> Any:
    """Whose a setting of a method is: the head kind's or the alignment kind's."""
    own = {field.name for field in dataclasses.fields(base.head_kind.Settings)}
    return base.head_kind if setting in own else base.alignment_kind
