"""Densities of features: Gaussian mixtures by EM over mergeable statistics, and kernel density."""
