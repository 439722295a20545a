"""Ryu and os-ken: both make the same bytes of every rule that the controller sends."""

from __future__ import annotations

import subprocess
import sys

import pytest

from testbed.controller.framework import FRAMEWORKS, OS_KEN, RYU
from tests.support.paths import ROOT

_RULES = """
import sys
from testbed.controller.framework import load
package = load(sys.argv[1]).App.__module__.split(".")[0]
from importlib import import_module
from testbed.controller.app import _flow_mod
from testbed.controller.rules import ip_rules
from testbed.controller.rules import pipeline
from testbed.controller.trees import spt_trees
from router.wire.header import node_address
from topos.generators import waxman
switch = import_module(f"{package}.ofproto.ofproto_protocol").ProtocolDesc(version=4)
topology = waxman(12)
rules = []
for node in topology.nodes:
    rules += pipeline(topology.neighbours(node.id).keys(), node_address(node.id))
rules += [rule for of_node in ip_rules(topology, spt_trees(topology)).values() for rule in of_node.values()]
for rule in rules:
    for delete in (False, True):
        message = _flow_mod(switch, rule, delete=delete)
        message.set_xid(0)
        message.serialize()
        print(bytes(message.buf).hex())
"""


def test_both_frameworks_make_the_same_bytes_of_every_rule() -> None:
    pytest.importorskip("os_ken")
    command, environment = [sys.executable, "-P", "-W", "ignore", "-c", _RULES], {"PYTHONPATH": str(ROOT)}
    made = {
        name: subprocess.check_output([*command, name], cwd=ROOT, env=environment).splitlines()
        for name in FRAMEWORKS
    }
    assert len(made[RYU]) > 300
    assert made[OS_KEN] == made[RYU]
