"""Where the published datasets are to be had: addresses, checksums, sizes, and what only a person can fetch.

None of the addresses below could be tried when this was written: they are from the datasets' own pages and from the public
code of others, as the comments say, and so are the checksums. A checksum is given where somebody has published one of the
very file; where there is none, the dataset's counts tell in the end whether all is there. Google Drive answers large files
with a web page, which is told as such; other mirrors, or the manual sentence, follow.
"""

from __future__ import annotations

from dataclasses import dataclass

from hda.data.download import Download


@dataclass(frozen=True)
class Source:
    """How a dataset is to be had.

    Args:
        name: the dataset's.
        downloads: what can be fetched by a program.
        manual: what to get from where, and where to put it, where there are no downloads or they fail.
    """

    name: str
    downloads: tuple[Download, ...]
    manual: str


# DomainNet: the addresses are those of http://ai.bu.edu/M3SDA/ ("cleaned version"), where a fair-use notice asks for use in
# non-commercial research and education alone; no form, no login. Sizes and SHA-256 are published in TensorFlow Datasets
# (image_classification/domainnet/checksums.tsv). The server was out of reach for some in autumn 2024.
BU = ("https://csr.bu.edu/ftp/visda/2019/multi-source", "http://csr.bu.edu/ftp/visda/2019/multi-source")
DOMAINNET = {
    # clipart and painting were withheld for the VisDA 2019 challenge, and are whole under "groundtruth" alone
    "groundtruth/clipart.zip": (1270909081, "f8f248a3e8bbc9868c523ae24e6601b4c2ad102afc60c0efeb4f3255df22354d"),
    "infograph.zip": (4338659804, "891e14f476317e97b6f06d6498c11d0a5b8d0c8b57210765ed9beb072da611fa"),
    "groundtruth/painting.zip": (3679366174, "fa47e6d405503ea0286cabd767f176bd30e988b63ddd7b9db16cf030c9770015"),
    "quickdraw.zip": (459920701, "9f37df2a8c3733703dbb35ad9964202a65f675ca30137756457537536b485d84"),
    "real.zip": (6062039589, "d7fe010b430c5b510f85d657d38c4a1924822695fabea4fef57bd00dba251d63"),
    "sketch.zip": (2633992926, "23a7dbae7016b343e934399beaa8a68728fb5e570ebe2c71df9b75cf91c499fc"),
}
DOMAINNET_LISTS = {
    "clipart_test.txt": (628917, "62c8e36aaba1c41ad9e249099739707220a44c08f167b37ef420f34a31628a6b"),
    "clipart_train.txt": (1443819, "affdadf5f95a7583e6b98030a3d35007e2613ee4dd942393c5a705ec2b429312"),
    "infograph_test.txt": (728028, "413cfa54ac92e7e6b242f4f09fbd9c8ace85c4deaf3cb6c81ff6b68264460136"),
    "infograph_train.txt": (1683098, "36b44cbd41a2915e0dc73b4f4be8862a6f3c220f93c8d63fb2439beeae3aefda"),
    "painting_test.txt": (971888, "11472b13b5188e09f06918b12eebb660588c97a20e43e268d9b02e3e37eb8f97"),
    "painting_train.txt": (2241901, "f1da38d50a702fddf1329f85bc607d7a2abcae7e6aec75e1fd49cc1bd340d47b"),
    "quickdraw_test.txt": (2213400, "2a00a60650a453c65c356da748fec54084a197272137c440e7d52d08947357bf"),
    "quickdraw_train.txt": (5164600, "3a5edd3bc215772010eebc87f158707703dd7e48091d13b816af81326a9d1c0f"),
    "real_test.txt": (1911327, "2b3f75bcde309aeb5931292084b2162e936b5f189e3bb1ad716f0f74c460864c"),
    "real_train.txt": (4440944, "19d483256d24aef19e581b65eda8333fd918aef3eb733fe499ff384120e3a289"),
    "sketch_test.txt": (850581, "3fb48fca18c507c4321f007c3f62b308ec232ff6928cbfe2af64e76ec366e840"),
    "sketch_train.txt": (1960222, "72f4bc6afa5702a1ccba800d0053c1427de87439dfaf246dbc9a2e71abfec54f"),
}

# The split lists of Saito et al. (ICCV 2019), in two commits of their repository. No checksums are published; the sizes are
# those of the lists as published.
MME = "https://raw.githubusercontent.com/VisionLearningGroup/SSDA_MME"
MME_COMMITS = ("39df479c3894fa8aa8589b0833d45e3112f872a0", "e244d5e03659774db20c4571e6cc1c4875f24285", "master")
MME_LISTS = (
    "labeled_target_images_{}_1.txt",
    "labeled_target_images_{}_3.txt",
    "unlabeled_target_images_{}_1.txt",
    "unlabeled_target_images_{}_3.txt",
    "validation_target_images_{}_3.txt",
    "labeled_source_images_{}.txt",
)
MME_SIZES = {
    "clipart": (5291, 15873, 784908, 774326, 15873, 790199),
    "painting": (5543, 16629, 1372540, 1361454, 16629, 1378083),
    "real": (4535, 13605, 2526082, 2517012, 13605, 2530617),
    "sketch": (5039, 15117, 970846, 950690, 15117, 980924),
    "Art": (1597, 4791, 57675, 54481, 4791, 59272),
    "Clipart": (1857, 5571, 121537, 117823, 5571, 123394),
    "Product": (1857, 5571, 125487, 121773, 5571, 127344),
    "Real": (1662, 4986, 110309, 106985, 4986, 111971),
}

# VisDA-2017: the addresses are those of the challenge's repository (VisionLearningGroup/taskcv-2017-public), whose sister of
# 2018 has the terms: non-commercial research and education, no redistribution. No checksums or exact sizes are published.
VISDA = ("https://csr.bu.edu/ftp/visda17/clf", "http://csr.bu.edu/ftp/visda17/clf")
VISDA_LABELS = "https://raw.githubusercontent.com/VisionLearningGroup/taskcv-2017-public/master/classification/data"

# Copies kept by the authors of jindongwang/transferlearning, named in its data/readme.md and in issues there. No checksums.
COPIES = "https://wjdcloud.blob.core.windows.net/dataset"

# Addresses and MD5 are those of torchvision.datasets; SVHN's sizes are those of a public DataLad copy. The second of MNIST's
# is in much public code.
MNIST = ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist")
USPS = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass"
SVHN = "http://ufldl.stanford.edu/housenumbers"


def _domainnet(names: tuple[str, ...]) -> tuple[Download, ...]:
    files = {path.rpartition("/")[2]: (path, *facts) for path, facts in DOMAINNET.items()}
    return tuple(
        Download(
            tuple(f"{server}/{path}" for server in BU),
            f"{name}.zip",
            sha256=sha256,
            size=size,
            extract="",
            holds=(name,),
        )
        for name in names
        for path, size, sha256 in [files[f"{name}.zip"]]
    )


def _mme(folder: str, names: tuple[str, ...], kinds: tuple[str, ...] = MME_LISTS) -> tuple[Download, ...]:
    return tuple(
        Download(
            tuple(f"{MME}/{commit}/data/txt/{folder}/{kind.format(name)}" for commit in MME_COMMITS),
            f"lists/{kind.format(name)}",
            size=MME_SIZES[name][MME_LISTS.index(kind)],
        )
        for name in names
        for kind in kinds
    )


SOURCES: dict[str, Source] = {
    # The authors' page, https://www.hemanthdv.org/officeHomeDataset.html, links the archive on Google Drive (1.1 GB), with a
    # fair-use notice for non-commercial research; no form. The first address is that file, put together after public code.
    "office-home": Source(
        "office-home",
        downloads=(
            Download(
                (
                    "https://docs.google.com/uc?export=download&id=0B81rNlvomiwed0V1YUxQdC1uOTg"
                    "&resourcekey=0-2SNWq0CDAuWOBRRBL7ZZsw&confirm=t",
                    f"{COPIES}/OfficeHome.zip",
                ),
                "OfficeHomeDataset_10072016.zip",
                extract="",
                unwrap=True,
                holds=("Art", "Clipart", "Product", "Real World"),
            ),
            *_mme("office_home", ("Art", "Clipart", "Product", "Real"), MME_LISTS[:-1]),
        ),
        manual=(
            "get OfficeHomeDataset_10072016.zip from https://www.hemanthdv.org/officeHomeDataset.html (a link to Google "
            "Drive, which asks for a confirmation), unpack it, and put Art, Clipart, Product and Real World into the folder"
        ),
    ),
    # The authors' page, https://faculty.cc.gatech.edu/~judy/domainadapt/, links the archive on Google Drive (77 MB, so that
    # no confirmation is asked for); no licence is stated. Its use for research alone is custom.
    "office-31": Source(
        "office-31",
        downloads=(
            Download(
                (
                    "https://drive.google.com/uc?export=download&id=0B4IapRTv9pJ1WGZVd1VDMmhwdlE",
                    f"{COPIES}/OFFICE31.zip",
                ),
                "domain_adaptation_images.tar.gz",
                extract="",
                unwrap=True,
                holds=("amazon", "dslr", "webcam"),
            ),
        ),
        manual=(
            "get domain_adaptation_images.tar.gz by the link on https://faculty.cc.gatech.edu/~judy/domainadapt/ (Google "
            "Drive), unpack it, and put amazon, dslr and webcam into the folder"
        ),
    ),
    # No address of the authors' with the pictures is known. That of thuml/Transfer-Learning-Library is in its code still,
    # though its keepers said in July 2023 that the files were lost.
    "office-caltech-10": Source(
        "office-caltech-10",
        downloads=(
            Download(
                ("https://cloud.tsinghua.edu.cn/f/e93f2e07d93243d6b57e/?dl=1",),
                "officecaltech.tgz",
                extract="",
                unwrap=True,
                holds=("amazon", "caltech", "dslr", "webcam"),
            ),
        ),
        manual=(
            "get the pictures by the link to Baidu on https://github.com/jindongwang/transferlearning/tree/master/data "
            "(Office-Caltech10, original images), or put Office-31's amazon, dslr and webcam and the ten classes of "
            "Caltech-256, as caltech, into the folder"
        ),
    ),
    "domainnet": Source(
        "domainnet",
        downloads=(
            *_domainnet(("clipart", "infograph", "painting", "quickdraw", "real", "sketch")),
            *(
                Download(tuple(f"{server}/domainnet/txt/{name}" for server in BU), name, sha256=sha256, size=size)
                for name, (size, sha256) in DOMAINNET_LISTS.items()
            ),
        ),
        manual=(
            "get the six archives and twelve lists of the cleaned version from http://ai.bu.edu/M3SDA/, unpack the archives, "
            "and put the folders clipart to sketch and the lists into the folder"
        ),
    ),
    "domainnet-126": Source(
        "domainnet-126",
        downloads=(
            *_domainnet(("clipart", "painting", "real", "sketch")),
            *_mme("multi", ("clipart", "painting", "real", "sketch")),
        ),
        manual=(
            "get clipart, painting, real and sketch of the cleaned version from http://ai.bu.edu/M3SDA/ and the lists from "
            "https://github.com/VisionLearningGroup/SSDA_MME (data/txt/multi), and put the former, unpacked, and the latter, "
            "in a folder called lists, into the folder"
        ),
    ),
    "visda-2017": Source(
        "visda-2017",
        downloads=(
            *(
                Download(tuple(f"{server}/{name}.tar" for server in VISDA), f"{name}.tar", extract="", holds=(name,))
                for name in ("train", "validation", "test")
            ),
            Download((f"{VISDA_LABELS}/image_list.txt",), "test/image_list.txt"),
        ),
        manual=(
            "get train.tar, validation.tar and test.tar as https://github.com/VisionLearningGroup/taskcv-2017-public says, and "
            "put train, validation and test, unpacked, into the folder"
        ),
    ),
    # The authors' folder on Google Drive can be opened by a person alone, and no longer by all; the copy of DomainBed's code
    # is gone. That of transferlearning was named there in September 2023 and fetched in May 2024; its pictures are in kfold.
    # No licence is stated.
    "pacs": Source(
        "pacs",
        downloads=(
            Download(
                (f"{COPIES}/PACS.zip",),
                "PACS.zip",
                extract="",
                unwrap=True,
                holds=("art_painting", "cartoon", "photo", "sketch"),
            ),
        ),
        manual=(
            "run `git clone https://github.com/MachineLearning2020/Homework3-PACS.git`, and put art_painting, cartoon, photo "
            "and sketch, which are in its folder PACS, into the folder"
        ),
    ),
    # The organisers of https://www.imageclef.org/2014/adaptation gave features; the pictures are to be had as copies alone.
    "imageclef-da": Source(
        "imageclef-da",
        downloads=(Download((f"{COPIES}/image_CLEF.zip",), "image_CLEF.zip", extract="", unwrap=True),),
        manual=(
            "get the pictures by the link to Baidu or MEGA on "
            "https://github.com/jindongwang/transferlearning/tree/master/data (ImageCLEF), and put the domains' folders and "
            "the lists into the folder"
        ),
    ),
    "digits": Source(
        "digits",
        downloads=(
            *(
                Download(tuple(f"{server}/{name}.gz" for server in MNIST), f"mnist/{name}.gz", md5=md5)
                for name, md5 in (
                    ("train-images-idx3-ubyte", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
                    ("train-labels-idx1-ubyte", "d53e105ee54ea40749a09fcbcd1e9432"),
                    ("t10k-images-idx3-ubyte", "9fb629c4189551a2d022fa330f9573f3"),
                    ("t10k-labels-idx1-ubyte", "ec29112dd5afa0611ce80d1b7f02629c"),
                )
            ),
            Download((f"{USPS}/usps.bz2",), "usps/usps.bz2", md5="ec16c51db3855ca6c91edd34d0e9b197"),
            Download((f"{USPS}/usps.t.bz2",), "usps/usps.t.bz2", md5="8ea070ee2aca1ac39742fdd1ef5ed118"),
            Download(
                (f"{SVHN}/train_32x32.mat",),
                "svhn/train_32x32.mat",
                md5="e26dedcc434d2e4c54c9b2d4a06d8373",
                size=182040794,
            ),
            Download(
                (f"{SVHN}/test_32x32.mat",),
                "svhn/test_32x32.mat",
                md5="eb5a983be6a315427106f1b164d9cef3",
                size=64275384,
            ),
            # Ganin's pictures, as KevinMusgrave/pytorch-adapt keeps them, which publishes the MD5: the folder mnist_m.
            Download(
                ("https://cornell.box.com/shared/static/jado7quprg6hzzdubvwzh9umr75damwi",),
                "mnist_m.tar.gz",
                md5="859df31c91afe82e80e5012ba928f279",
                extract="",
                holds=("mnist_m",),
            ),
        ),
        manual=(
            "get MNIST, USPS, SVHN (cropped digits) and MNIST-M from where their names lead in "
            "https://pytorch.org/vision/stable/datasets.html and https://github.com/KevinMusgrave/pytorch-adapt, and put the "
            "files into mnist, usps, svhn and mnist_m in the folder"
        ),
    ),
}
