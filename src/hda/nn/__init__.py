"""Small modules to build methods, or somebody's own loop, from."""

from hda.nn.averaging import Averaged
from hda.nn.certainty import BayesianDiscriminator, Doubt, certainty_attention
from hda.nn.discriminator import Bridged, BridgedDiscriminator, DomainDiscriminator
from hda.nn.domain_heads import DomainHeads, mixed
from hda.nn.heads import (
    BottleneckHead,
    CosineHead,
    Heuristic,
    HeuristicHead,
    MLPHead,
    Narrowed,
    PlainHead,
    kaiming_linear,
    xavier_linear,
)
from hda.nn.hidden import HiddenHead
from hda.nn.multilinear import MultilinearMap
from hda.nn.residual import ResidualClassifier
from hda.nn.reversal import reversal_coefficient, reverse_gradient

__all__ = [
    "Averaged",
    "BayesianDiscriminator",
    "BottleneckHead",
    "Bridged",
    "BridgedDiscriminator",
    "CosineHead",
    "DomainDiscriminator",
    "DomainHeads",
    "Doubt",
    "Heuristic",
    "HeuristicHead",
    "HiddenHead",
    "MLPHead",
    "MultilinearMap",
    "Narrowed",
    "PlainHead",
    "ResidualClassifier",
    "certainty_attention",
    "kaiming_linear",
    "mixed",
    "reversal_coefficient",
    "reverse_gradient",
    "xavier_linear",
]
