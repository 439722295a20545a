"""`cbcb check`: validates an experiment and says what it would do."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections import Counter

from testbed.cli.arguments import add_experiment, add_force, add_runs, load
from testbed.emulation.run.demand import capacity, demand, estimate, shortages
from testbed.experiments.config import AUTO, Experiment
from testbed.experiments.workload import Workload
from testbed.experiments.workload.generate import generate
from testbed.experiments.workload.keys import key_ring
from testbed.machine.checks import lacking_properties, open_vswitch
from testbed.machine.probes import kernel_features
from testbed.support.errors import MachineError
from testbed.terminal import put
from testbed.terminal.numbers import counted


def check_arguments(parser: ArgumentParser) -> None:
    add_experiment(parser)
    add_runs(parser)
    add_force(parser)


def check_command(arguments: Namespace) -> int:
    """Prints a summary of a valid experiment, and what its emulation takes of this machine.

    Returns 0, or 3 if this machine lacks something that `cbcb run` needs.

    Raises:
        InputError: the experiment has a fault.
    """
    experiment = load(arguments)
    workload = generate(experiment)
    put(describe(experiment, workload))
    made = estimate(experiment, workload)
    needed = demand(experiment, made)
    for heading, text in [("work", made.describe()), *needed.describe(), ("machine", _machine())]:
        put(f"  {heading:11} {text}")
    if (warning := made.warning(experiment)) is not None:
        put(f"warning: {warning}")
    # Only root can ask the kernel.
    lacking = lacking_properties(experiment) if os.geteuid() == 0 else None
    refused = [] if lacking is None else [lacking]
    if not arguments.force:
        refused += shortages(needed, capacity(arguments.runs))
    for reason in refused:
        put(f"refused here: {reason}")
    if refused:
        put("`cbcb simulate` needs none of this")
    return MachineError.status if refused else 0


def _machine() -> str:
    """Names Open vSwitch and the features of this kernel, which only root may try."""
    if os.geteuid() != 0:
        return "not asked what its kernel and Open vSwitch offer: that needs root"
    kernel = kernel_features()
    offered = {"netem": kernel.netem, "TBF": kernel.tbf, "nftables egress": kernel.nft_egress}
    has = ", ".join(
        f"{name} {'offered' if is_there else 'not offered'}" for name, is_there in offered.items()
    )
    switch = open_vswitch()
    return f"Open vSwitch {switch.detail if switch.ok else f'missing: {switch.mend}'}; {has}"


def describe(experiment: Experiment, workload: Workload) -> str:
    topology = experiment.topology
    return "\n".join(
        [
            f"{experiment.name}: valid",
            f"  topology    {topology.name}: {len(topology.nodes)} routers, {len(topology.links)} links",
            f"  broadcast   {experiment.broadcast.layer}",
            f"  duration    {_duration(experiment)}",
            f"  workload    {_requests(workload)}",
            *_privacy(experiment),
            f"  events      {len(experiment.events)}",
            f"  seed        {experiment.seed}",
        ]
    )


def _requests(workload: Workload) -> str:
    """Counts what applications do, in one pass: a workload may be generated as it is read."""
    actions = Counter(item.action for item in workload.items)
    if actions["register"] or actions["publish"]:
        return (
            f"{counted(actions['publish'], 'publication')}, {counted(actions['register'], 'subscription')}, "
            f"{counted(actions['refresh'], 'renewal')}"
        )
    messages = actions["send_message"]
    return (
        f"{counted(len(workload.senders), 'sender')}, {counted(len(workload.receivers), 'receiver')}, "
        f"{counted(messages, 'message')}, {actions.total() - messages} changes of predicates"
    )


def _privacy(experiment: Experiment) -> list[str]:
    """The line about the encoding; none of a network without privacy."""
    if not experiment.privacy.on:
        return []
    ring = key_ring(experiment)
    chosen = next(key.parameters for key in ring.keys if key.key_id == ring.sending)
    return [
        f"  privacy     {experiment.privacy.mode}: sets of {chosen.bits} bits, {chosen.hashes} for each "
        f"string, encoding {chosen.encoding}"
    ]


def _duration(experiment: Experiment) -> str:
    scale, duration_s = experiment.time_scale, experiment.duration_s
    if scale == AUTO:
        return f"{duration_s:g} s at the rate that the machine keeps up with, at most {experiment.fastest:g}"
    return f"{duration_s:g} s at time scale {scale:g}: {duration_s / scale:g} s of wall time"
