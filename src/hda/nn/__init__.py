"""Small modules to build methods, or somebody's own loop, from."""

from hda.nn.averaging import Averaged
from hda.nn.discriminator import DomainDiscriminator
from hda.nn.heads import Heuristic, HeuristicHead, MLPHead, PlainHead
from hda.nn.reversal import reversal_coefficient, reverse_gradient

__all__ = [
    "Averaged",
    "DomainDiscriminator",
    "Heuristic",
    "HeuristicHead",
    "MLPHead",
    "PlainHead",
    "reversal_coefficient",
    "reverse_gradient",
]
