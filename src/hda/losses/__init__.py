"""Losses as pure functions: tensors in, a scalar (or one value a row) out. One idea a file."""

from hda.losses.adversarial import domain_classification
from hda.losses.balance import class_balance
from hda.losses.classification import cross_entropy
from hda.losses.consistency import consistency
from hda.losses.discrepancy import classifier_discrepancy
from hda.losses.entropy import entropy, entropy_weights
from hda.losses.independence import independence, kurtosis
from hda.losses.similarity import similarity
from hda.losses.termination import termination

__all__ = [
    "class_balance",
    "classifier_discrepancy",
    "consistency",
    "cross_entropy",
    "domain_classification",
    "entropy",
    "entropy_weights",
    "independence",
    "kurtosis",
    "similarity",
    "termination",
]
