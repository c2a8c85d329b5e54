"""Gaussian mixtures fitted by EM, kernel densities, and the moments they are made of."""

from .conditioning import Conditioning, Covariance, Statistics
from .full import TiedStatistics
from .gaussian import Components, GaussianMixture, first_statistics, fit_from, fit_mixture
from .kernel import Kernels, held_out_bandwidth
from .moments import RANK_TOLERANCE, ClassMoments, Moments, Whitening, cholesky, in_tree_order, symmetric_root
from .starts import start

__all__ = [
    "RANK_TOLERANCE", "ClassMoments", "Components", "Conditioning", "Covariance", "GaussianMixture", "Kernels",
    "Moments", "Statistics", "TiedStatistics", "Whitening", "cholesky", "first_statistics", "fit_from", "fit_mixture",
    "held_out_bandwidth", "in_tree_order", "start", "symmetric_root",
]  # fmt: skip
