"""Discrepancies between domains, as modules that hold what they need to learn. One file each."""

from hda.alignments.adversarial import DomainAdversary
from hda.alignments.bridge_adversarial import BridgedAdversary
from hda.alignments.conditional_adversarial import ConditionalAdversary
from hda.alignments.density import TightMatch
from hda.alignments.entropy_adversarial import EntropyConditionedAdversary
from hda.alignments.margin_disparity import MarginDisparity
from hda.alignments.spectral import SpectralPenalty

__all__ = [
    "BridgedAdversary",
    "ConditionalAdversary",
    "DomainAdversary",
    "EntropyConditionedAdversary",
    "MarginDisparity",
    "SpectralPenalty",
    "TightMatch",
]
