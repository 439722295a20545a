"""The testbed's topologies for plain Mininet, without the testbed itself.

    mn --custom topos/mininet_topos.py --topo waxman,20 --switch ovs,stp=1 ...

Names: `line,N`, `ring,N`, `star,N`, `grid,ROWS,COLUMNS`, `tree,DEPTH,FANOUT`, `waxman,N[,SEED]` and
`brite,FILE`, `toml,FILE`; parameters may be named as in `topos.generators` (`waxman,20,cost=unit`).
`tree` takes the place of Mininet's own. Node n is host `r<n>` on port 65000 of switch `s<n>` (datapath
id n + 1); the ports of links are those of the model. Links that declare bandwidth, delay or loss become
`TCLink`s; Mininet reports an error for delay or loss if the kernel lacks `sch_netem`. Most of these
graphs have cycles: ordinary Ethernet traffic needs switches that know of them (`stp=1`, a controller).

`mn` executes this file in a namespace of its own, without `__file__`, and copies every global name into
its own globals: hence the careful choice of names here.
"""

from __future__ import annotations

import sys as _sys
from collections.abc import Callable as _Callable
from functools import partial as _partial
from pathlib import Path as _Path
from typing import Any as _Any

from mininet.link import TCLink as _TCLink
from mininet.topo import Topo as _Topo

# The name under which this file was compiled; the packages are in the folder above it.
_sys.path.append(str(_Path((lambda: None).__code__.co_filename).resolve().parent.parent))

from topos import Link as _ModelLink, Topology as _Topology, generators as _generators, loaders as _loaders

#: The switch port of a node's own host; equal to `router.wire.header.HOST_PORT`.
CBCB_HOST_PORT = 65_000


class CbcbTopo(_Topo):
    """A Mininet topology of what a generator or loader returns."""

    def build(self, make: _Callable[..., _Topology], *arguments: _Any, **parameters: _Any) -> None:
        """Mininet calls this with the arguments of the constructor.

        Raises:
            TopologyError: `make` refuses its arguments.
        """
        topology = make(*arguments, **parameters)
        for node in topology.nodes:
            switch = self.addSwitch(f"s{node.id}", dpid=f"{node.id + 1:016x}")
            host = self.addHost(f"r{node.id}")
            self.addLink(switch, host, port1=CBCB_HOST_PORT, port2=0)
        for link in topology.links:
            self.addLink(
                f"s{link.u}", f"s{link.v}", port1=link.u_port, port2=link.v_port, **_link_parameters(link)
            )


def _link_parameters(link: _ModelLink) -> dict[str, _Any]:
    declared = {"bw": link.bandwidth_mbps, "loss": link.loss_percent}
    times = {"delay": link.delay_ms, "jitter": link.jitter_ms}
    given: dict[str, _Any] = {name: value for name, value in declared.items() if value is not None}
    given |= {name: f"{value}ms" for name, value in times.items() if value is not None}
    return {"cls": _TCLink, **given} if given else {}


def _load_file(suffix: str, name: _Any) -> _Topology:
    # `mn` makes a number of an argument that looks like one.
    path = _Path(str(name))
    if path.suffix.lower() != suffix:
        raise ValueError(f"{path}: expected a file whose name ends in {suffix}")
    return _loaders.load(path)


#: What `mn --topo` can name; `mn` merges it with its own.
topos = {
    **{name: _partial(CbcbTopo, generator.make) for name, generator in _generators.GENERATORS.items()},
    "brite": _partial(CbcbTopo, _partial(_load_file, ".brite")),
    "toml": _partial(CbcbTopo, _partial(_load_file, ".toml")),
}
