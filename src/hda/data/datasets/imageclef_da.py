"""ImageCLEF-DA (Caputo et al., 2014): twelve classes that Caltech-256, ImageNet, Pascal VOC and Bing share."""

from __future__ import annotations

from hda.data.datasets.base import Dataset, Domain, words


class ImageCLEFDA(Dataset):
    """ImageCLEF-DA: 50 pictures of each class in each domain.

    As published a domain is one folder, `c`, without class folders, and `list/cList.txt` numbers the classes; copies
    with class folders are read too. Papers use three of the domains; Bing's, with 600 pictures like the others, is the
    fourth, and `*` takes it in where it is there.
    """

    name = "imageclef-da"
    title = "ImageCLEF-DA"
    classes = words("aeroplane bike bird boat bottle bus car dog horse monitor motorbike people")
    domains = (
        Domain("Bing", "B", ("b",), images=600, per_class=(50,) * 12),
        Domain("Caltech", "C", ("c",), images=600, per_class=(50,) * 12),
        Domain("ImageNet", "I", ("i", "ilsvrc"), images=600, per_class=(50,) * 12),
        Domain("Pascal", "P", ("p",), images=600, per_class=(50,) * 12),
    )
    optional = ("Bing",)
    citation = "Caputo et al.: ImageCLEF 2014: Overview and Analysis of the Results, CLEF 2014"
    licence = "the licences of Caltech-256, ImageNet, Pascal VOC and Bing's pictures; used for research"
    homepage = "https://www.imageclef.org/2014/adaptation"
