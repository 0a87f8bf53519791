"""Serialized lists (C22): small, readable by NIXL's pickle.loads, and read without executing anything."""

import os
import pickle

import pytest
from agents import local_agent
from nixl import _bindings as nixlBind


@pytest.fixture(scope="module")
def agent():
    return local_agent("serialized")


def descs(count):
    return nixlBind.nixlXferDList(nixlBind.DRAM_SEG, [(4096 * i, 1024, 0) for i in range(count)])


@pytest.mark.parametrize("count", [1, 15_000])
def test_c22_size_is_at_most_32_bytes_per_segment(agent, count):
    serialized = agent.get_serialized_descs(descs(count))
    assert len(serialized) <= 32 * count + 256
    assert agent.deserialize_descs(serialized) == descs(count)


def test_c22_registration_lists_come_back_with_their_meta(agent):
    regions = nixlBind.nixlRegDList(nixlBind.FILE_SEG, [(0, 4096, 7, "rw:/a"), (4096, 1, 8, b"\0\xff")])
    back = agent.deserialize_descs(agent.get_serialized_descs(regions))
    assert isinstance(back, nixlBind.nixlRegDList) and back == regions


def test_c22_pickle_reads_what_is_written_and_the_other_way_round(agent):
    assert pickle.loads(agent.get_serialized_descs(descs(3))) == descs(3)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert agent.deserialize_descs(pickle.dumps(descs(3), protocol)) == descs(3)


# What pickle.dumps gives for lists of NIXL 1.5.1.
OF_NIXL = {
    "xfer": (
        b"\x80\x04\x95\x98\0\0\0\0\0\0\0\x8c\x13nixl_cu13._bindings\x94\x8c\rnixlXferDList\x94\x93\x94)\x81\x94Ch"
        b"nixlSerDes|nixlDList\n\0\0\0\0\0\0\0nixlBDList|t\x04\0\0\0\0\0\0\0\x01\0\0\0|n\x08\0\0\0\0\0\0\0"
        b"\x01\0\0\0\0\0\0\0|\x18\0\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\x01\0\0\0\0\0\0\0|\x94b.",
        nixlBind.nixlXferDList(nixlBind.VRAM_SEG, [(4096, 512, 1)]),
    ),
    "reg": (
        b"\x80\x04\x95\x9c\0\0\0\0\0\0\0\x8c\x13nixl_cu13._bindings\x94\x8c\x0cnixlRegDList\x94\x93\x94)\x81\x94Cm"
        b"nixlSerDes|nixlDList\n\0\0\0\0\0\0\0nixlSDList|t\x04\0\0\0\0\0\0\0\x04\0\0\0|n\x08\0\0\0\0\0\0\0"
        b"\x01\0\0\0\0\0\0\0|\x1d\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\x07\0\0\0\0\0\0\0rw:/a|\x94b.",
        nixlBind.nixlRegDList(nixlBind.FILE_SEG, [(0, 4096, 7, "rw:/a")]),
    ),
}


@pytest.mark.parametrize(("serialized", "expected"), OF_NIXL.values(), ids=OF_NIXL.keys())
def test_c22_lists_of_nixl_are_read_and_written_with_the_same_state(agent, serialized, expected):
    assert agent.deserialize_descs(serialized) == expected
    assert expected.__getstate__() in serialized


class Runs:
    """Unpickling it would run code."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_c22_a_hostile_payload_is_refused_without_running_it(agent, tmp_path):
    for protocol in range(0, pickle.HIGHEST_PROTOCOL + 1):
        path = tmp_path / str(protocol)
        payload = pickle.dumps(Runs(path), protocol)
        with pytest.raises(nixlBind.nixlMismatchError):
            agent.deserialize_descs(payload)
        assert not path.exists()
        pickle.loads(payload)
        assert path.exists(), "the payload is as hostile as the test says"


def test_c22_whatever_is_not_a_list_is_refused(agent):
    good = agent.get_serialized_descs(descs(2))
    for wrong in (b"", b"junk", pickle.dumps(5), pickle.dumps([descs(1)]), pickle.dumps(Exception), good[:-1]):
        with pytest.raises(nixlBind.nixlMismatchError, match="^NIXL_ERR_MISMATCH: "):
            agent.deserialize_descs(wrong)
    for length in range(len(good)):
        with pytest.raises(nixlBind.nixlMismatchError):
            agent.deserialize_descs(good[:length])


def test_c22_only_lists_are_serialized(agent):
    for wrong in (5, None, [(1, 2, 3)], nixlBind.nixlRemoteDList(nixlBind.DRAM_SEG)):
        with pytest.raises(TypeError):
            agent.get_serialized_descs(wrong)
