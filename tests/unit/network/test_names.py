from __future__ import annotations

from router.wire.addresses import HOST_PORT
from testbed.network.names import DEVICE_NAME_MAX, TAG_ALPHABET, TAG_LENGTH, Names, datapath_id, new_tag


def test_tags_are_short_and_of_the_alphabet() -> None:
    tag = new_tag()
    assert len(tag) == TAG_LENGTH
    assert set(tag) <= set(TAG_ALPHABET)


def test_names_fit_the_kernel_for_large_networks() -> None:
    names = Names("zzz")
    for name in (names.switch(99_999), names.port(9_999, 999), names.port(99_999, HOST_PORT)):
        assert len(name) <= DEVICE_NAME_MAX, name
    assert len(names.host_device(99_999)) <= DEVICE_NAME_MAX


def test_names_of_one_run_are_distinct_and_begin_alike() -> None:
    names = Names("abc")
    made = [names.switch(n) for n in range(12)]
    made += [names.port(n, p) for n in range(12) for p in (1, 2, 11, HOST_PORT)]
    assert len(set(made)) == len(made)
    assert all(name.startswith(names.prefix) for name in made)


def test_runs_differ_in_prefix_and_device_group() -> None:
    assert Names("abc").prefix != Names("abd").prefix
    assert Names("abc").group != Names("abd").group
    assert 0 < Names("zzz").group < 2**31


def test_datapath_ids_are_valid_and_distinct() -> None:
    assert datapath_id(0) == "0000000000000001"
    assert datapath_id(254) == "00000000000000ff"
