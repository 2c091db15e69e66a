"""Small modules to build methods, or somebody's own loop, from."""

from hda.nn.averaging import Averaged
from hda.nn.discriminator import DomainDiscriminator
from hda.nn.domain_heads import DomainHeads, mixed
from hda.nn.heads import BottleneckHead, CosineHead, Heuristic, HeuristicHead, MLPHead, Narrowed, PlainHead
from hda.nn.hidden import HiddenHead
from hda.nn.multilinear import MultilinearMap
from hda.nn.residual import ResidualClassifier
from hda.nn.reversal import reversal_coefficient, reverse_gradient

__all__ = [
    "Averaged",
    "BottleneckHead",
    "CosineHead",
    "DomainDiscriminator",
    "DomainHeads",
    "Heuristic",
    "HeuristicHead",
    "HiddenHead",
    "MLPHead",
    "MultilinearMap",
    "Narrowed",
    "PlainHead",
    "ResidualClassifier",
    "mixed",
    "reversal_coefficient",
    "reverse_gradient",
]
