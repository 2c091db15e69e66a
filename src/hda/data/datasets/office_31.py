"""Office-31 (Saenko et al., ECCV 2010): 31 kinds of things in an office, from a shop, a good camera and a poor one."""

from __future__ import annotations

from hda.data.datasets.base import Dataset, Domain, numbers, words


class Office31(Dataset):
    """Office-31: 4,110 pictures, numbered from frame_0001 in each class."""

    name = "office-31"
    title = "Office-31"
    classes = words(
        """
        back_pack bike bike_helmet bookcase bottle calculator desk_chair desk_lamp desktop_computer file_cabinet
        headphones keyboard laptop_computer letter_tray mobile_phone monitor mouse mug paper_notebook pen phone printer
        projector punchers ring_binder ruler scissors speaker stapler tape_dispenser trash_can
        """
    )
    domains = (
        Domain(
            "Amazon",
            "A",
            images=2817,
            per_class=numbers(
                """
                92 82 72 82 36 94 91 97 97 81 99 100 100 98 100 99 100 94 96 95 93 100 98 98 90 75 100 99 99 96
                64
                """
            ),
        ),
        Domain(
            "DSLR",
            "D",
            images=498,
            per_class=numbers(
                """
                12 21 24 12 16 12 13 14 15 15 13 10 24 16 31 22 12 8 10 10 13 15 23 18 10 7 18 26 21 22 15
                """
            ),
        ),
        Domain(
            "Webcam",
            "W",
            images=795,
            per_class=numbers(
                """
                29 21 28 12 16 31 40 18 21 19 27 27 30 19 30 43 30 27 28 32 16 20 30 27 40 11 25 30 24 23 21
                """
            ),
        ),
    )
    numbering = "frame_{:04d}"
    citation = "Saenko, Kulis, Fritz and Darrell: Adapting Visual Category Models to New Domains, ECCV 2010"
    licence = "published without a licence; used for research"
    homepage = "https://faculty.cc.gatech.edu/~judy/domainadapt/"
