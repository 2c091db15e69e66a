"""VisDA-2017 (Peng et al., 2017): renderings of 3D models, and photos of the same twelve classes."""

from __future__ import annotations

from hda.data.datasets.base import Dataset, Domain, words


class VisDA2017(Dataset):
    """VisDA-2017, classification. Papers adapt Synthetic (`train`) to Real (`validation`).

    `test` has no class folders; `image_list.txt`, published after the challenge, numbers its classes. Its counts of each
    class are not checked, only their sum.
    """

    name = "visda-2017"
    title = "VisDA-2017"
    classes = words("aeroplane bicycle bus car horse knife motorcycle person plant skateboard train truck")
    domains = (
        Domain(
            "Synthetic",
            "S",
            ("train", "synth"),
            images=152397,
            per_class=(14309, 7365, 16640, 12800, 9512, 14240, 17360, 12160, 10371, 11680, 16000, 9960),
        ),
        Domain(
            "Real",
            "R",
            ("validation", "val", "coco"),
            images=55388,
            per_class=(3646, 3475, 4690, 10401, 4691, 2075, 5796, 4000, 4549, 2281, 4236, 5548),
        ),
        Domain("Test", "T", images=72372),
    )
    optional = ("Test",)
    citation = "Peng, Usman, Kaushik, Hoffman, Wang and Saenko: VisDA: The Visual Domain Adaptation Challenge, 2017"
    licence = "research and education, not commercial"
    homepage = "https://ai.bu.edu/visda-2017/"
