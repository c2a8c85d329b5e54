"""The paper's theory, executable: structures, vector fields, valid OOD regions and their sizes."""

from .caps import auroc_cap, confidence_caps, largest_odds, loss_floor
from .fields import KnownMixture, density_field, entropy_field, max_field
from .plane import Plane, square_window
from .regions import (
    EllipsoidRegion,
    HeadRegion,
    Projection,
    Region,
    ScoreRegion,
    SlabRegion,
    confidence_threshold,
    density_region,
    ellipsoid_region,
    entropy_region,
    exact_region,
    gaussian_coverage,
    linear_region,
    projection,
    slab_offset,
    valid_region,
    valid_threshold,
)
from .sizes import RegionSizes, Share, TrainingView, region_sizes, shares_under, uniform_in_ball, uniform_on_sphere
from .structures import (
    SphericalCode,
    StructureReport,
    lopsided,
    optimal_structure,
    random_rotation,
    random_structure,
    sandwich,
    simplex,
    spherical_code,
    stack,
    structure_report,
)

__all__ = [
    "EllipsoidRegion", "HeadRegion", "KnownMixture", "Plane", "Projection", "Region", "RegionSizes", "ScoreRegion",
    "Share", "SlabRegion", "SphericalCode", "StructureReport", "TrainingView", "auroc_cap", "confidence_caps",
    "confidence_threshold", "density_field", "density_region", "ellipsoid_region", "entropy_field", "entropy_region",
    "exact_region", "gaussian_coverage", "largest_odds", "linear_region", "lopsided", "loss_floor", "max_field",
    "optimal_structure", "projection", "random_rotation", "random_structure", "region_sizes", "sandwich",
    "shares_under", "simplex", "slab_offset", "spherical_code", "square_window", "stack", "structure_report",
    "uniform_in_ball", "uniform_on_sphere", "valid_region", "valid_threshold",
]  # fmt: skip
