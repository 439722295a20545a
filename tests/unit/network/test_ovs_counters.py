from __future__ import annotations

from testbed.network.ovs_counters import difference, parse_ports

PRINTED = """OFPST_PORT reply (OF1.3) (xid=0x2): 3 ports
  port LOCAL: rx pkts=7, bytes=700, drop=7, errs=0, frame=0, over=0, crc=0
           tx pkts=0, bytes=0, drop=0, errs=0, coll=0
           duration=0.083s
  port  1: rx pkts=12, bytes=1200, drop=0, errs=0, frame=0, over=0, crc=0
           tx pkts=34, bytes=3400, drop=1, errs=0, coll=0
           duration=0.069s
  port 65000: rx pkts=5, bytes=500, drop=?, errs=?, frame=?, over=?, crc=?
           tx pkts=6, bytes=600, drop=?, errs=?, coll=?
           duration=0.069s
"""


def test_ports_are_read_and_the_local_port_is_left_out() -> None:
    ports = parse_ports(PRINTED)
    assert set(ports) == {1, 65000}
    assert ports[1] == {
        "rx_packets": 12,
        "tx_packets": 34,
        "rx_bytes": 1200,
        "tx_bytes": 3400,
        "rx_dropped": 0,
        "tx_dropped": 1,
    }


def test_a_counter_that_is_not_kept_is_zero() -> None:
    assert parse_ports(PRINTED)[65000]["rx_dropped"] == 0


def test_the_difference_is_counter_by_counter() -> None:
    start = {0: parse_ports(PRINTED)}
    end = {0: {port: {k: v + 2 for k, v in c.items()} for port, c in start[0].items()}}
    assert difference(start, end)[0][1] == dict.fromkeys(end[0][1], 2)
