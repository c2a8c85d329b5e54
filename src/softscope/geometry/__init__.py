"""The paper's theory, executable: structures, vector fields, valid OOD regions and their sizes, and the claims."""

from .codes import SphericalCode, spherical_code
from .components import Components
from .fields import density_field, entropy_field, max_field
from .regions import (
    EllipsoidRegion,
    HeadRegion,
    Region,
    ScoreRegion,
    confidence_threshold,
    density_region,
    ellipsoid_region,
    entropy_region,
    exact_region,
    linear_region,
    valid_region,
    valid_threshold,
)
from .sizes import RegionSizes, region_sizes
from .structures import (
    StructureReport,
    lopsided,
    optimal_structure,
    random_rotation,
    random_structure,
    sandwich,
    stack,
    structure_report,
)
from .two_class import SlabRegion, gaussian_offset, slab_offset
from .volumes import Share, log_ball_volume, share_of_ball, share_under, shares_under

__all__ = [
    "Components",
    "EllipsoidRegion",
    "HeadRegion",
    "Region",
    "RegionSizes",
    "ScoreRegion",
    "Share",
    "SlabRegion",
    "SphericalCode",
    "StructureReport",
    "confidence_threshold",
    "density_field",
    "density_region",
    "ellipsoid_region",
    "entropy_field",
    "entropy_region",
    "exact_region",
    "gaussian_offset",
    "linear_region",
    "log_ball_volume",
    "lopsided",
    "max_field",
    "optimal_structure",
    "random_rotation",
    "random_structure",
    "region_sizes",
    "sandwich",
    "share_of_ball",
    "share_under",
    "shares_under",
    "slab_offset",
    "spherical_code",
    "stack",
    "structure_report",
    "valid_region",
    "valid_threshold",
]
