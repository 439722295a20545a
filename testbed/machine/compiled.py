"""Compilation of everything that a run needs (`python -m testbed.machine.compiled`), at set-up."""

from __future__ import annotations

from router.matching.engines import COMPILED
from router.protocol.options import BLOOM
from router.runtime.process import warm as warm_routers
from testbed.controller.trees import broadcast_tables, spt_trees
from topos.generators import waxman


def warm() -> None:
    """Loads the machine code of matching, forwarding and trees, or compiles it (within two minutes).

    Raises:
        RuntimeError: the machine code gives a wrong answer.
    """
    warm_routers((COMPILED, BLOOM))
    topology = waxman(3)
    broadcast_tables(topology, spt_trees(topology))


if __name__ == "__main__":
    warm()
