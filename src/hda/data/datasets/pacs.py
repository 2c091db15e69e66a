"""PACS (Li et al., ICCV 2017): seven classes in photos, art paintings, cartoons and sketches."""

from __future__ import annotations

from hda.data.datasets.base import Dataset, Domain, words


class PACS(Dataset):
    """PACS: 9,991 pictures."""

    name = "pacs"
    title = "PACS"
    classes = words("dog elephant giraffe guitar horse house person")
    domains = (
        Domain("Art", "A", ("art_painting",), images=2048, per_class=(379, 255, 285, 184, 201, 295, 449)),
        Domain("Cartoon", "C", images=2344, per_class=(389, 457, 346, 135, 324, 288, 405)),
        Domain("Photo", "P", images=1670, per_class=(189, 202, 182, 186, 199, 280, 432)),
        Domain("Sketch", "S", images=3929, per_class=(772, 740, 753, 608, 816, 80, 160)),
    )
    citation = "Li, Yang, Song and Hospedales: Deeper, Broader and Artier Domain Generalization, ICCV 2017"
    licence = "published without a licence; used for research"
    homepage = "https://sketchx.eecs.qmul.ac.uk/downloads/"
