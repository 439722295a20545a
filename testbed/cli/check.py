"""Checks of an experiment and of this machine; the removal of what dead runs left on it."""

from __future__ import annotations

import os
import tempfile
from argparse import ArgumentParser, Namespace
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from captures.rundir import RunLayout
from captures.spark.folder import remove_abandoned
from testbed.cli.arguments import add_engine, add_experiment, add_force, add_master, add_runs, load, master
from testbed.cli.prepared import has_room
from testbed.emulation.network.cleanup import KEPT, clean_dead_runs
from testbed.emulation.run.demand import Estimate, accounting, capacity, demand, shortages, work_of
from testbed.experiments.config import AUTO, Experiment
from testbed.experiments.events.parts import check_machines
from testbed.experiments.workload import Workload
from testbed.experiments.workload.keys import key_ring
from testbed.machine.checks import check_machine, compiled_code, lacking_properties, open_vswitch
from testbed.machine.probes import kernel_features
from testbed.support.errors import InputError, MachineError, RunError
from testbed.support.run_state import live_runs
from testbed.terminal import put
from testbed.terminal.numbers import counted


def check_arguments(parser: ArgumentParser) -> None:
    add_experiment(parser)
    add_runs(parser)
    add_force(parser)
    add_master(parser, "local[2]")
    add_engine(parser)


def check_command(arguments: Namespace) -> int:
    """Prints a summary of a valid experiment, and what its emulation takes of this machine or of a cluster.

    Returns 0, or 3 if this machine lacks something that `cbcb run` needs.

    Raises:
        InputError: the experiment has a fault, or one that this machine, or those of a cluster, cannot have.
        MachineError: a machine of the cluster that is named cannot emulate it, or carry its share.
    """
    experiment = load(arguments)
    workload, made = work_of(experiment)
    put(describe(experiment, workload))
    if not arguments.master.startswith("local"):
        _check_cluster(experiment, made, arguments)
        return 0
    check_machines(experiment.events, experiment.topology)
    needed = demand(experiment, made)
    ahead = has_room(experiment, arguments.master)
    after = accounting(experiment, made, arguments.engine, arguments.master, prepared=ahead)
    rows = [("work", made.describe()), *needed.describe(), ("accounting", after), ("machine", _machine())]
    for heading, text in rows:
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


def _check_cluster(experiment: Experiment, made: Estimate, arguments: Namespace) -> None:
    """Prints what each machine of a cluster would carry of one network; raises as `run` refuses it."""
    # Spark takes seconds to load.
    from testbed.emulation.machines.cut import cut_over, describe_part, require_own, require_parts
    from testbed.evaluation.sweeps.machines import machines_for

    with machines_for(experiment, arguments.master, put) as (_, checked):
        parts = cut_over(experiment.topology, checked.answers)
    check_machines(experiment.events, experiment.topology, [*parts.values()])
    for machine, nodes in parts.items():
        for heading, text in describe_part(experiment, made, machine, nodes):
            put(f"  {heading:11} {text}")
    require_own(parts)
    if not arguments.force:
        require_parts(experiment, made, parts, arguments.runs)


def topology_arguments(parser: ArgumentParser) -> None:
    parser.epilog = f"Of a run: cbcb topology {RunLayout(Path('RUN')).topology}"
    add_experiment(parser)
    parser.add_argument(
        "--to", choices=("graphml", "dot", "mermaid"), default="graphml", help="form of the text (graphml)"
    )


def topology_command(arguments: Namespace) -> None:
    # Links that lose frames need a fixed time scale, which no topology has.
    arguments.overrides.insert(0, "time_scale=1")
    experiment = load(arguments)
    # networkx takes a third of a second to load.
    from topos.graphs import WRITERS

    for line in WRITERS[arguments.to](experiment.topology):
        put(line)


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
    messages, asked = actions["send_message"], actions["request_update"]
    return (
        f"{counted(len(workload.senders), 'sender')}, {counted(len(workload.receivers), 'receiver')}, "
        f"{counted(messages, 'message')}, {actions.total() - messages - asked} changes of predicates"
        + (f", {counted(asked, 'SR')} of applications" if asked else "")
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


def doctor_command(_arguments: Namespace) -> int:
    """Prints one line a finding.

    Returns 3 if something is missing that `cbcb run` needs.
    """
    checks = [*check_machine(), compiled_code()]
    table = Table(box=None, pad_edge=False, show_header=False)
    for check in checks:
        mark = "[green]ok[/]" if check.ok else "[red]missing[/]" if check.required else "[yellow]not here[/]"
        table.add_row(mark, check.name, Text(check.detail, overflow="fold"))
        if not check.ok:
            mend = Text.assemble(("to mend:", "dim"), f" {check.mend}")
            mend.overflow = "fold"
            table.add_row("", "", mend)
    Console().print(table)
    return 3 if any(check.required and not check.ok for check in checks) else 0


def clean_arguments(parser: ArgumentParser) -> None:
    text = "clean the machines of a Spark cluster (spark://HOST:PORT) in place of this machine"
    parser.add_argument("--master", type=master, help=text)


def clean_command(arguments: Namespace) -> int:
    """Prints what was removed and which live runs were left alone.

    Returns 0, or 1 if a machine of a cluster was not cleaned.
    """
    if arguments.master is not None:
        if arguments.master.startswith("local"):
            raise InputError(f"--master {arguments.master}: expected a cluster, spark://HOST:PORT")
        from captures.spark.machines import SETTINGS
        from captures.spark.session import spark_session
        from testbed.evaluation.sweeps.machines import clean

        with spark_session(arguments.master, more=SETTINGS) as spark:
            return int(any(each.status for each in clean(spark, put)))
    if os.geteuid() != 0:
        raise MachineError("rights: user id is not 0; run it as root: `sudo ./run.sh clean`")
    cleaned = clean_dead_runs()
    folders, processes = remove_abandoned()
    if cleaned.tags:
        put(f"removed what {len(cleaned.tags)} dead runs left ({cleaned.processes} processes)")
    if folders:
        put(f"removed {folders} temporary folders of Spark's ({processes} processes)")
    if not cleaned.tags and not folders and not cleaned.failures:
        put("nothing to clean")
    for state in live_runs():
        put(f"left alone: run {state.tag}, alive (process {state.owner.pid}, {state.run_dir})")
    for path in sorted(Path(tempfile.gettempdir()).glob(f"{KEPT}*")):
        put(f"left alone: {path}, files of a run that have not come to its driver; delete them yourself")
    if cleaned.failures:
        raise RunError("not everything could be removed: " + "; ".join(cleaned.failures))
    return 0
