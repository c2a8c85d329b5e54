"""Which data sets there are: classes, sizes, licence, citation, who made them, and where they can be had.

Counts are those of the complete set; a folder with fewer rows is usable and labelled as a subset wherever it appears.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import SoftscopeError
from . import classes


@dataclass(frozen=True)
class HubFiles:
    """Parquet files of one data set on the Hugging Face hub: `<folder>/<split>-*.parquet` at one commit.

    `splits` maps our split to the hub's; where the hub has one split only, `held_out` of each class's rows become the
    test split (drawn with seed 0).
    """

    repo: str
    revision: str
    folder: str = "data"
    splits: Mapping[str, str] = field(default_factory=dict)
    held_out: int = 0


@dataclass(frozen=True)
class NpmPackage:
    """A published npm package, the sha256 of its tarball, and how its files are read (`idx` or `sheets`)."""

    name: str
    version: str
    sha256: str
    reader: str
    folder: str = "package"


@dataclass(frozen=True)
class DebianPackage:
    """A Debian package of gzipped IDX files: where they are when installed, and each file's sha256."""

    name: str
    folder: str
    sha256: Mapping[str, str]


Source = HubFiles | NpmPackage | DebianPackage


@dataclass(frozen=True)
class DataSet:
    """One entry. `name` is the folder's name; `shape` is (height, width, channels), height and width 0 if they vary."""

    name: str
    title: str
    aliases: tuple[str, ...]
    classes: tuple[str, ...]
    splits: Mapping[str, int]
    shape: tuple[int, int, int]
    makers: str
    licence: str
    citation: str
    sources: tuple[Source, ...] = ()
    note: str = ""

    @property
    def channels(self) -> int:
        """1 for grey images, 3 for colour."""
        return self.shape[2]


def find(name: str) -> DataSet:
    """The entry with this name or alias, whatever its case, dashes, dots, underscores and spaces."""
    wanted = _plain(name)
    if wanted in _BY_NAME:
        return _BY_NAME[wanted]
    close = difflib.get_close_matches(wanted, _BY_NAME, n=1)
    nearest = f"Did you mean {_BY_NAME[close[0]].name}?" if close else "See `softscope data list`"
    raise SoftscopeError(f"{name}: no such data set", nearest)


def rows_of(dataset: DataSet, split: str) -> int:
    """How many rows the complete split has."""
    if split not in dataset.splits:
        raise SoftscopeError(
            f"{dataset.name}: no split {split!r}", f"Its splits are {', '.join(sorted(dataset.splits))}"
        )
    return dataset.splits[split]


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


_DIGITS = tuple("0123456789")
_TISSUES = ("tumor", "stroma", "complex", "lympho", "debris", "mucosa", "adipose", "empty")
_KATHER_2016 = "Kather et al., Multi-class texture analysis in colorectal cancer histology, Scientific Reports 6, 2016"

CATALOG: tuple[DataSet, ...] = (
    DataSet(
        name="mnist",
        title="MNIST, handwritten digits",
        aliases=(),
        classes=_DIGITS,
        splits={"train": 60000, "test": 10000},
        shape=(28, 28, 1),
        makers="Yann LeCun, Corinna Cortes, Christopher Burges",
        licence="none stated by its makers",
        citation="LeCun et al., Gradient-based learning applied to document recognition, Proc. IEEE 86, 1998",
    ),
    DataSet(
        name="fashion_mnist",
        title="Fashion-MNIST, articles of clothing",
        aliases=("f.mnist", "fmnist", "fashion"),
        classes=(
            *("T - shirt / top", "Trouser", "Pullover", "Dress", "Coat"),
            *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        ),
        splits={"train": 60000, "test": 10000},
        shape=(28, 28, 1),
        makers="Han Xiao, Kashif Rasul, Roland Vollgraf (Zalando)",
        licence="MIT",
        citation="Xiao, Rasul, Vollgraf, Fashion-MNIST, arXiv:1708.07747, 2017",
    ),
    DataSet(
        name="svhn",
        title="Street View House Numbers, cropped digits",
        aliases=(),
        classes=_DIGITS,
        splits={"train": 73257, "test": 26032},
        shape=(32, 32, 3),
        makers="Yuval Netzer, Tao Wang, Adam Coates, Alessandro Bissacco, Bo Wu, Andrew Ng",
        licence="non-commercial use only",
        citation="Netzer et al., Reading digits in natural images with unsupervised feature learning, NIPS 2011",
    ),
    DataSet(
        name="cifar10",
        title="CIFAR-10, small photographs",
        aliases=("c10",),
        classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
        splits={"train": 50000, "test": 10000},
        shape=(32, 32, 3),
        makers="Alex Krizhevsky, Vinod Nair, Geoffrey Hinton",
        licence="none stated by its makers",
        citation="Krizhevsky, Learning multiple layers of features from tiny images, 2009",
    ),
    DataSet(
        name="cifar100",
        title="CIFAR-100, small photographs, fine labels",
        aliases=("c100",),
        classes=classes.CIFAR100,
        splits={"train": 50000, "test": 10000},
        shape=(32, 32, 3),
        makers="Alex Krizhevsky, Vinod Nair, Geoffrey Hinton",
        licence="none stated by its makers",
        citation="Krizhevsky, Learning multiple layers of features from tiny images, 2009",
    ),
    DataSet(
        name="uc_merced",
        title="UC Merced land use, aerial photographs",
        aliases=("satellite",),
        classes=classes.UC_MERCED,
        splits={"train": 1680, "test": 420},
        shape=(0, 0, 3),
        makers="Yi Yang, Shawn Newsam; imagery of the US Geological Survey",
        licence="public-domain imagery, for research",
        citation="Yang, Newsam, Bag-of-visual-words and spatial extensions for land-use classification, ACM GIS, 2010",
        note="no official split: 80 and 20 of each class's 100",
    ),
    DataSet(
        name="colorectal_histology",
        title="Colorectal cancer histology, colour tiles",
        aliases=("cancer", "kather texture 2016"),
        classes=_TISSUES,
        splits={"train": 4000, "test": 1000},
        shape=(150, 150, 3),
        makers="Jakob Nikolas Kather and others (University Medical Center Mannheim)",
        licence="CC BY 4.0",
        citation=_KATHER_2016,
        note="no official split: 500 and 125 of each class's 625, the paper's 4000 and 1000",
    ),
    DataSet(
        name="colorectal_histology_grey",
        title="Colorectal cancer histology, a greyscale copy at 128 pixels",
        aliases=("cancer grey",),
        classes=_TISSUES,
        splits={"train": 4000, "test": 1000},
        shape=(128, 128, 1),
        makers="Jakob Nikolas Kather and others (University Medical Center Mannheim)",
        licence="CC BY 4.0",
        citation=_KATHER_2016,
        note="stands in for colorectal_histology where only this copy is at hand; filled by hand",
    ),
    DataSet(
        name="colorectal_histology_rgb_sample",
        title="Colorectal cancer histology, three original colour tiles a class",
        aliases=("cancer sample",),
        classes=_TISSUES,
        splits={"test": 24},
        shape=(150, 150, 3),
        makers="Jakob Nikolas Kather and others (University Medical Center Mannheim)",
        licence="CC BY 4.0",
        citation=_KATHER_2016,
        note="filled by hand",
    ),
    DataSet(
        name="nct_crc_he",
        title="NCT-CRC-HE-100K and CRC-VAL-HE-7K, another colorectal histology set in colour",
        aliases=("cancer colour", "nct crc he 100k"),
        classes=("ADI", "BACK", "DEB", "LYM", "MUC", "MUS", "NORM", "STR", "TUM"),
        splits={"train": 100000, "test": 7180},
        shape=(224, 224, 3),
        makers="Jakob Nikolas Kather, Niels Halama, Alexander Marx",
        licence="CC BY 4.0",
        citation="Kather et al., Predicting survival from colorectal cancer histology slides, PLOS Medicine 16, 2019",
    ),
    DataSet(
        name="oxford_pets",
        title="Oxford-IIIT Pet, breeds of cats and dogs",
        aliases=("pets", "oxford iiit pet"),
        classes=classes.OXFORD_PETS,
        splits={"train": 3680, "test": 3669},
        shape=(0, 0, 3),
        makers="Omkar Parkhi, Andrea Vedaldi, Andrew Zisserman, C. V. Jawahar",
        licence="CC BY-SA 4.0",
        citation="Parkhi et al., Cats and dogs, CVPR, 2012",
    ),
    DataSet(
        name="flowers102",
        title="Oxford 102 flowers",
        aliases=("flowers", "oxford flowers102"),
        classes=classes.FLOWERS102,
        splits={"train": 1020, "validation": 1020, "test": 6149},
        shape=(0, 0, 3),
        makers="Maria-Elena Nilsback, Andrew Zisserman",
        licence="none stated by its makers",
        citation="Nilsback, Zisserman, Automated flower classification over a large number of classes, ICVGIP, 2008",
    ),
    DataSet(
        name="beans",
        title="iBean, diseases of bean leaves",
        aliases=("ibean",),
        classes=("angular_leaf_spot", "bean_rust", "healthy"),
        splits={"train": 1034, "validation": 133, "test": 128},
        shape=(0, 0, 3),
        makers="Makerere AI Lab and the National Crops Resources Research Institute, Uganda",
        licence="MIT",
        citation="Makerere AI Lab, Bean disease dataset, 2020",
    ),
    DataSet(
        name="digits",
        title="Handwritten digits of 8x8 pixels, inside scikit-learn",
        aliases=("sklearn digits", "optdigits"),
        classes=_DIGITS,
        splits={"train": 1297, "test": 500},
        shape=(8, 8, 1),
        makers="Ethem Alpaydin, Cenk Kaynak",
        licence="CC BY 4.0",
        citation="Alpaydin, Kaynak, Optical recognition of handwritten digits, UCI repository, 1998",
        note="always there; no official split: the first 1297 and the last 500",
    ),
)

_BY_NAME = {_plain(known): entry for entry in CATALOG for known in (entry.name, *entry.aliases)}
