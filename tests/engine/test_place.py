import pytest

from hda.engine.place import Place, place
from hda.errors import UserError

MEETING = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


@pytest.fixture
def environment(monkeypatch):
    """Called with what the environment is to say; nothing else of its kind is left in it."""

    def put(**variables: str) -> None:
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", *MEETING):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return put


def test_a_process_is_alone_where_nothing_is_said(environment):
    environment()
    assert place() == Place(rank=0, size=1, local=0, neighbours=1)
    assert place().alone
    assert place().first
    environment(WORLD_SIZE="4")  # as some schedulers say of a job that is none of torchrun's
    assert place().alone


def test_torchrun_says_which_process_it_is(environment):
    environment(RANK="5", WORLD_SIZE="8", LOCAL_RANK="1", LOCAL_WORLD_SIZE="4", **MEETING)
    assert place() == Place(rank=5, size=8, local=1, neighbours=4)
    assert not place().first
    assert not place().alone


def test_without_word_of_machines_there_is_one(environment):
    environment(RANK="1", WORLD_SIZE="2", **MEETING)
    assert place() == Place(rank=1, size=2, local=1, neighbours=2)


def test_one_process_of_torchrun_is_alone(environment):
    environment(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
    assert place().alone


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"RANK": "two", "WORLD_SIZE": "2"}, "RANK is 'two', which is no number: start the processes with torchrun"),
        (
            {"RANK": "2", "WORLD_SIZE": "2"},
            "RANK 2 of WORLD_SIZE 2 and LOCAL_RANK 2 of LOCAL_WORLD_SIZE 2 are no place",
        ),
        ({"RANK": "1", "WORLD_SIZE": "2"}, "WORLD_SIZE is 2 but MASTER_ADDR is not set: start the processes with"),
        ({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a"}, "WORLD_SIZE is 2 but MASTER_PORT is not set"),
    ],
)
def test_what_is_no_place_is_refused(environment, said, sentence):
    environment(**said)
    with pytest.raises(UserError) as error:
        place()
    assert str(error.value).startswith(sentence)
