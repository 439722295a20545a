from __future__ import annotations

from router.wire.header import HOST_PORT
from testbed.support.names import (
    TAG_ALPHABET,
    TAG_LENGTH,
    host_device,
    new_tag,
    port_device,
    switch_name,
)


def test_names_of_the_largest_networks_fit_a_device_name() -> None:
    for name in (port_device(999_999, 65_534), port_device(999_999, HOST_PORT), host_device(999_999)):
        assert len(name) <= 15  # IFNAMSIZ of Linux, without the final 0


def test_no_two_devices_of_a_run_share_a_name() -> None:
    made = [switch_name(n) for n in range(12)]
    made += [port_device(n, p) for n in range(12) for p in (1, 2, 11, HOST_PORT)]
    assert len(set(made)) == len(made)


def test_tags_have_the_documented_form() -> None:
    tag = new_tag()
    assert len(tag) == TAG_LENGTH
    assert set(tag) <= set(TAG_ALPHABET)
