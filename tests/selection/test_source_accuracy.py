import numpy as np

from hda.selection import Labelled, Seen
from hda.selection.source_accuracy import SourceAccuracy


def test_it_is_the_share_of_held_out_pictures_that_are_right(make_seen):
    logits = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]])
    held = Labelled(np.zeros((5, 2)), logits, np.array([0, 1, 1, 0, 2]))
    assert SourceAccuracy().score(Seen(make_seen().target, None, held)) == 3 / 5
