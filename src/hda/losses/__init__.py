"""Losses as pure functions: tensors in, a scalar (or one value a row) out. One idea a file."""

from hda.losses.adversarial import domain_classification
from hda.losses.attenuation import attenuated_cross_entropy
from hda.losses.balance import class_balance
from hda.losses.class_confusion import class_confusion
from hda.losses.classification import cross_entropy
from hda.losses.consistency import consistency
from hda.losses.coral import coral
from hda.losses.density import density_divergence
from hda.losses.discrepancy import classifier_discrepancy
from hda.losses.divergence import jensen_shannon, sensitivity
from hda.losses.domain_confusion import domain_confusion
from hda.losses.domains import cross_entropy_by_domain, domain_means, domain_rows
from hda.losses.entropy import entropy, entropy_weights
from hda.losses.feature_norm import feature_norm_step
from hda.losses.halves import entropy_of_halves, half_surprise
from hda.losses.independence import independence, kurtosis
from hda.losses.kernels import gaussian_kernels, squared_distances, squared_distances_of_products
from hda.losses.margin import margin_disparity
from hda.losses.mmd import joint_mmd, mean_discrepancy, mmd, tensor_mmd
from hda.losses.moments import moment_distance
from hda.losses.nuclear_norm import batch_nuclear_norm, nuclear_norm
from hda.losses.pseudo_label import pseudo_label
from hda.losses.similarity import similarity
from hda.losses.spectral import spectral_penalty
from hda.losses.termination import termination
from hda.losses.weighting import shares

__all__ = [
    "attenuated_cross_entropy",
    "batch_nuclear_norm",
    "class_balance",
    "class_confusion",
    "classifier_discrepancy",
    "consistency",
    "coral",
    "cross_entropy",
    "cross_entropy_by_domain",
    "density_divergence",
    "domain_classification",
    "domain_confusion",
    "domain_means",
    "domain_rows",
    "entropy",
    "entropy_of_halves",
    "entropy_weights",
    "feature_norm_step",
    "gaussian_kernels",
    "half_surprise",
    "independence",
    "jensen_shannon",
    "joint_mmd",
    "kurtosis",
    "margin_disparity",
    "mean_discrepancy",
    "mmd",
    "moment_distance",
    "nuclear_norm",
    "pseudo_label",
    "sensitivity",
    "shares",
    "similarity",
    "spectral_penalty",
    "squared_distances",
    "squared_distances_of_products",
    "tensor_mmd",
    "termination",
]
