"""What every dataset in the room keeps to."""

from __future__ import annotations

import re

import pytest

from hda.cli.commands.data import describe
from hda.data.datasets.base import Dataset
from hda.data.names import plain
from hda.data.sources import SOURCES
from hda.errors import UserError
from hda.registry import lookup, registered

NAMES = (
    *(
        "digits",
        "domainnet",
        "domainnet-126",
        "folder",
        "imageclef-da",
        "office-31",
        "office-caltech-10",
        "office-home",
    ),
    *("pacs", "visda-2017"),
)
PUBLISHED = [name for name in NAMES if name != "folder"]


def test_datasets_are_found_by_being_there():
    assert tuple(registered("data.datasets")) == NAMES
    with pytest.raises(UserError, match=r"unknown dataset 'office-hom': did you mean 'office-home'"):
        lookup("data.datasets", "office-hom")


@pytest.mark.parametrize("name", PUBLISHED)
def test_facts_go_together(name):
    cls: type[Dataset] = lookup("data.datasets", name)
    assert cls.citation
    assert cls.licence
    assert cls.homepage.startswith("http")
    assert re.search("https?://", SOURCES[name].manual)
    assert len(set(map(plain, cls.classes))) == len(cls.classes) > 1
    for other in cls.aliases.values():
        assert other in cls.classes
    for names in (["name"], ["short"]):
        assert len({plain(getattr(domain, part)) for domain in cls.domains for part in names}) == len(cls.domains)
    for domain in cls.domains:
        assert (domain.train is None) == (domain.test is None) == (not cls.parts)
        if domain.per_class:
            assert len(domain.per_class) == len(cls.classes)
            assert sum(domain.per_class) == domain.images
    assert set(cls.optional) <= {domain.name for domain in cls.domains}


@pytest.mark.parametrize("name", PUBLISHED)
def test_one_word_means_one_domain(name, tmp_path):
    dataset = lookup("data.datasets", name)(tmp_path)
    for domain in dataset.domains:
        for word in domain.names:
            assert dataset.domain(word.upper().replace("_", " ")) is domain
    with pytest.raises(UserError, match=r"has no domain 'Nowhere'"):
        dataset.domain("Nowhere")


@pytest.mark.parametrize("name", NAMES)
def test_a_description_is_plain_data(name):
    facts = describe(lookup("data.datasets", name))
    assert facts["name"] == name
    assert all(isinstance(value, str | int) for value in facts.values())


def test_published_totals():
    """Sums that papers print."""
    total = {name: sum(d.images or 0 for d in lookup("data.datasets", name).domains) for name in NAMES}
    assert total["office-home"] == 15588
    assert total["office-31"] == 4110
    assert total["office-caltech-10"] == 2533
    assert total["pacs"] == 9991
    domainnet = lookup("data.datasets", "domainnet")
    assert sum((d.train or 0) + (d.test or 0) for d in domainnet.domains) == 586575
    assert len(domainnet.classes) == 345
    assert set(lookup("data.datasets", "domainnet-126").classes) < set(domainnet.classes)
    assert len(lookup("data.datasets", "domainnet-126").classes) == 126


def test_a_root_that_is_no_folder_is_an_error(tmp_path):
    with pytest.raises(UserError, match=r"is no folder: give the folder that PACS lies in"):
        lookup("data.datasets", "pacs")(tmp_path / "nowhere")
