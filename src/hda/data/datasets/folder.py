"""One's own: a folder with a folder, or a `.tar`, for each domain."""

from __future__ import annotations

from contextlib import suppress

from hda.data.datasets.base import Dataset, Domain
from hda.data.images import Location, read_labelled
from hda.data.names import plain
from hda.errors import UserError


class Folder(Dataset):
    """Whatever domains a folder holds, each with class folders; nothing is published about them."""

    name = "folder"
    title = "your folder"
    citation = ""
    licence = "yours"
    homepage = ""
    manual = "put a folder for each domain, with a folder for each class in it, into the folder"

    def __init__(self, root: Location) -> None:
        super().__init__(root)
        names = sorted(
            {p.name if p.is_dir() else p.stem for p in self._at(self.root) if p.is_dir() or p.suffix == ".tar"}
        )
        alike: dict[str, str] = {}
        for name in names:
            if alike.setdefault(plain(name), name) != name:
                raise UserError(f"{self.root} has the domains {alike[plain(name)]} and {name}, too alike: rename one")
        self.domains = tuple(Domain(name, name) for name in names)
        if not names:
            raise UserError(f"{self.root} holds no folders: {self.manual}")
        present = []
        for path in map(self.where, self.domains):
            with suppress(UserError):  # told when that domain is asked for: other things may lie beside domains
                present += [] if path is None else [read_labelled(path, complete=False)]
        self.classes = tuple(sorted({name for pictures in present for name in pictures.classes}))

    def called(self, folder: str) -> str | None:
        """Classes are called as their folders are: nobody has said that two spellings mean one."""
        return folder if folder in self.classes else None
