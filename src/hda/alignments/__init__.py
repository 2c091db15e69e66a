"""Discrepancies between domains, as modules that hold what they need to learn. One file each."""

from hda.alignments.entropy_adversarial import EntropyConditionedAdversary

__all__ = ["EntropyConditionedAdversary"]
