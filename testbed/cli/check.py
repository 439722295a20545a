"""`cbcb check`: validates an experiment and says what it would do."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from testbed.cli.arguments import add_experiment
from testbed.cli.experiments import load
from testbed.config.model import AUTO, Experiment
from testbed.emulation.estimate import estimate
from testbed.workload.generate import generate
from testbed.workload.members import key_ring
from testbed.workload.model import Workload


def add_arguments(parser: ArgumentParser) -> None:
    add_experiment(parser)


def main(arguments: Namespace) -> int:
    """Prints a summary of a valid experiment; a fault is an InputError (exit status 2)."""
    experiment = load(arguments)
    workload = generate(experiment)
    print(describe(experiment, workload))
    made = estimate(experiment, workload)
    print(f"  machine     {made.describe()}")
    if (warning := made.warning(experiment)) is not None:
        print(f"warning: {warning}")
    return 0


def describe(experiment: Experiment, workload: Workload) -> str:
    """A few lines on what the experiment does."""
    topology = experiment.topology
    messages = sum(item.attributes is not None for item in workload.items)
    return "\n".join(
        [
            f"{experiment.name}: valid",
            f"  topology    {topology.name}: {len(topology.nodes)} routers, {len(topology.links)} links",
            f"  broadcast   {experiment.broadcast.layer}",
            f"  duration    {_duration(experiment)}",
            f"  workload    {len(workload.senders)} senders, {len(workload.receivers)} receivers, "
            f"{messages} messages, {len(workload.items) - messages} changes of predicates",
            *_privacy(experiment),
            f"  events      {len(experiment.events)}",
            f"  seed        {experiment.seed}",
        ]
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
