import numpy as np
import pytest

from hda.selection import Seen, Unlabelled
from hda.selection.infomax import InfoMax


def test_it_is_the_mutual_information_of_pictures_and_classes(make_seen, softmax):
    seen = make_seen()
    joint = softmax(seen.target.logits) / len(seen.target)  # of a picture drawn evenly and the class it is given
    pictures, classes = joint.sum(axis=1), joint.sum(axis=0)
    terms = [joint[i, j] * np.log(joint[i, j] / (pictures[i] * classes[j])) for i, j in np.ndindex(joint.shape)]
    assert InfoMax().score(seen) == pytest.approx(sum(terms), rel=1e-6)


def test_it_is_highest_for_sure_predictions_of_all_classes_and_zero_for_one_class():
    sure = 1e3 * np.eye(5)[np.arange(20) % 5]
    assert InfoMax().score(Seen(Unlabelled(sure, sure))) == pytest.approx(np.log(5))
    one = 1e3 * np.eye(5)[np.zeros(20, dtype=int)]
    assert InfoMax().score(Seen(Unlabelled(one, one))) == pytest.approx(0, abs=1e-12)
