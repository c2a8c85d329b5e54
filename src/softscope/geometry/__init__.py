"""The paper's theory, executable: structures, vector fields, valid OOD regions and their sizes, and the claims."""

from .codes import SphericalCode, spherical_code
from .components import Components
from .fields import density_field, entropy_field, max_field
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

__all__ = [
    "Components",
    "SphericalCode",
    "StructureReport",
    "density_field",
    "entropy_field",
    "lopsided",
    "max_field",
    "optimal_structure",
    "random_rotation",
    "random_structure",
    "sandwich",
    "spherical_code",
    "stack",
    "structure_report",
]
