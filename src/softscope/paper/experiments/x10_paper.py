"""What the paper prints of X10: table_AUROC_bench (bottom) and table_transferdatasets."""

from .x09_paper import line

RUNS = 3

TABLE = {
    "Satellite": line((97.7, 99.7, 99.9, 99.9, 99.9), (0.1, 0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.1)),
    "Cancer": line((95.2, 98.4, 99.3, 99.8, 100.0), (0.1, 0.0, 0.0, 0.0, 0.0), (0.5, 0.2, 0.0)),
    "Pets": line((92.5, 100.0, 100.0, 100.0, 100.0), (0.1, 0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
    "Flowers": line((94.7, 99.9, 99.9, 99.9, 100.0), (0.0, 0.0, 0.0, 0.0, 0.0), (0.0, 0.1, 0.0)),
    "Beans": line((94.1, 96.8, 98.2, 99.0, 100.0), (0.2, 0.1, 0.1, 0.0, 0.0), (0.8, 1.0, 0.0)),
}
MEAN = line((99.0, 99.5, 99.7, 100.0), None, (0.3, 0.2, 0.0))
#: topic -> (training images, test images, classes, crop in pixels, epochs of the last layer, of everything)
DATA = {
    "Satellite": (1600, 250, 21, 224, 16, 32),
    "Cancer": (4000, 1000, 8, 150, 16, 32),
    "Pets": (3680, 1000, 37, 224, 16, 32),
    "Flowers": (2040, 1000, 102, 224, 16, 64),
    "Beans": (534, 500, 3, 224, 16, 32),
}
