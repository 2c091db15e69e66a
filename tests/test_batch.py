import dataclasses

import pytest
import torch

from hda.batch import Batch, Layout, Progress


def batch_of(layout: Layout, **changed) -> Batch:
    """Pictures that hold the number of their row."""
    images = torch.arange(layout.rows).float()[:, None, None, None].expand(-1, 3, 2, 2)
    fields = {
        "images": (images,),
        "labels": torch.zeros(layout.labelled, dtype=torch.int64),
        "domains": torch.zeros(layout.rows, dtype=torch.int64),
        "layout": layout,
    }
    return Batch(**fields | changed)


def rows(batch: Batch, part: slice) -> list[int]:
    return batch.images[0][part, 0, 0, 0].int().tolist()


def test_a_layout_counts_its_rows():
    layout = Layout(source=3, labelled_target=2, target=4)
    assert layout.rows == 9
    assert layout.labelled == 5


def test_slices_say_whose_row_is_whose():
    batch = batch_of(Layout(source=3, labelled_target=2, target=4))
    assert rows(batch, batch.source) == [0, 1, 2]
    assert rows(batch, batch.labelled_target) == [3, 4]
    assert rows(batch, batch.labelled) == [0, 1, 2, 3, 4]
    assert rows(batch, batch.target) == [5, 6, 7, 8]
    assert [rows(batch, group) for group in batch.groups] == [[0, 1, 2], [3, 4], [5, 6, 7, 8]]


@pytest.mark.parametrize(
    ("layout", "groups"),
    [
        (Layout(3, 0, 4), [[0, 1, 2], [3, 4, 5, 6]]),
        (Layout(2, 1, 0), [[0, 1], [2]]),
        (Layout(2, 0, 0), [[0, 1]]),
    ],
)
def test_groups_without_rows_are_left_out(layout, groups):
    batch = batch_of(layout)
    assert [rows(batch, group) for group in batch.groups] == groups


LAYOUT = Layout(source=3, labelled_target=2, target=4)


@pytest.mark.parametrize(
    ("part", "sizes"),
    [
        (slice(None), (5, 4)),  # source and labelled target together, then the target
        (slice(0, 5), (5,)),
        (slice(0, 3), (3,)),
        (slice(5, 9), (4,)),
        (slice(3, 9), (2, 4)),
        (slice(4, 7), (1, 2)),
        (slice(6, 6), ()),
    ],
)
def test_batch_statistics_are_shared_by_the_labelled_rows_and_by_the_targets(part, sizes):
    assert LAYOUT.statistics(part) == sizes
    assert sum(sizes) == len(range(LAYOUT.rows)[part])


def test_several_sources_share_their_batch_statistics():
    assert Layout(source=48, labelled_target=0, target=16).statistics(slice(None)) == (48, 16)
    assert Layout(source=48, labelled_target=0, target=0).statistics(slice(None)) == (48,)


def test_there_is_no_place_for_a_label_of_the_unlabelled_target():
    assert {field.name for field in dataclasses.fields(Batch)} == {"images", "labels", "domains", "layout", "share"}
    everything = torch.zeros(LAYOUT.rows, dtype=torch.int64)
    with pytest.raises(ValueError, match="9 labels for 5 labelled rows"):
        batch_of(LAYOUT, labels=everything)
    with pytest.raises(ValueError, match="3 labels for 5 labelled rows"):
        batch_of(LAYOUT, labels=everything[:3])
    batch = batch_of(LAYOUT)
    with pytest.raises(dataclasses.FrozenInstanceError):
        batch.labels = everything
    with pytest.raises(dataclasses.FrozenInstanceError):
        batch.target_labels = everything[:4]


@pytest.mark.parametrize(
    "changed", [{"images": (torch.zeros(9, 3, 2, 2), torch.zeros(8, 3, 2, 2))}, {"domains": [0] * 8}]
)
def test_every_view_and_the_domains_have_the_rows_of_the_layout(changed):
    with pytest.raises(ValueError, match="must be of 9 rows"):
        batch_of(LAYOUT, **changed)


def test_progress_as_a_fraction_stays_a_tensor():
    fraction = Progress(torch.tensor(150.0), steps=600).fraction
    assert isinstance(fraction, torch.Tensor)
    assert fraction.item() == 0.25
