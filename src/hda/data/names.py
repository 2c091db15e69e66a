"""How names of folders and files are compared where copies of one dataset spell them differently."""

from __future__ import annotations

import re

from hda.data.images import EXTENSIONS


def plain(name: str) -> str:
    """A name without what spellings differ in: case, spaces, hyphens, underscores.

    >>> plain("Real_World") == plain("RealWorld") == plain("real world")
    True
    """
    return re.sub(r"[\W_]+", "", name).casefold()


def stem(name: str) -> str:
    """A picture's name without its folders and without the ending that says its format.

    >>> stem("Art/Alarm_Clock/00001.webp")
    '00001'
    """
    file = name.rpartition("/")[2]
    return file.rpartition(".")[0] if file.lower().endswith(EXTENSIONS) else file
