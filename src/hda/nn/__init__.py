"""Small modules to build methods, or somebody's own loop, from."""

from hda.nn.averaging import Averaged
from hda.nn.discriminator import DomainDiscriminator
from hda.nn.heads import BottleneckHead, Heuristic, HeuristicHead, MLPHead, Narrowed, PlainHead
from hda.nn.reversal import reversal_coefficient, reverse_gradient

__all__ = [
    "Averaged",
    "BottleneckHead",
    "DomainDiscriminator",
    "Heuristic",
    "HeuristicHead",
    "MLPHead",
    "Narrowed",
    "PlainHead",
    "reversal_coefficient",
    "reverse_gradient",
]
