"""Office-Caltech10 (Gong et al., CVPR 2012): the ten classes that Office-31 and Caltech-256 share."""

from __future__ import annotations

from types import MappingProxyType

from hda.data.datasets.base import Dataset, Domain, words


class OfficeCaltech10(Dataset):
    """Office-Caltech10: 2,533 pictures.

    Folders of the whole of Office-31 do for three of the domains: other classes are passed over. Caltech's classes may
    be called as in Caltech-256. Its counts of each class are not known for certain, so only their sum is checked.
    """

    name = "office-caltech-10"
    title = "Office-Caltech10"
    classes = words("back_pack bike calculator headphones keyboard laptop_computer monitor mouse mug projector")
    others = False
    aliases = MappingProxyType(
        {
            "backpack": "back_pack",
            "touring-bike": "bike",
            "headphone": "headphones",
            "head-phones": "headphones",
            "computer-keyboard": "keyboard",
            "laptop": "laptop_computer",
            "laptop-101": "laptop_computer",
            "computer-monitor": "monitor",
            "computer-mouse": "mouse",
            "coffee-mug": "mug",
            "video-projector": "projector",
        }
    )
    domains = (
        Domain("Amazon", "A", images=958, per_class=(92, 82, 94, 99, 100, 100, 99, 100, 94, 98)),
        Domain("Caltech", "C", ("Caltech10", "Caltech256"), images=1123),
        Domain("DSLR", "D", images=157, per_class=(12, 21, 12, 13, 10, 24, 22, 12, 8, 23)),
        Domain("Webcam", "W", images=295, per_class=(29, 21, 31, 27, 27, 30, 43, 30, 27, 30)),
    )
    citation = "Gong, Shi, Sha and Grauman: Geodesic Flow Kernel for Unsupervised Domain Adaptation, CVPR 2012"
    licence = "published without a licence; used for research"
    homepage = "https://faculty.cc.gatech.edu/~judy/domainadapt/"
