"""One run of an experiment: emulated, or simulated in virtual time."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from captures.rundir import accounting
from testbed.cli.arguments import add_engine, add_experiment, add_force, add_master, add_page, add_runs, load
from testbed.emulation.network.namespaces import require_backlog
from testbed.experiments.config import Experiment
from testbed.experiments.events.parts import check_machines
from testbed.machine.probes import datapath, why_no_tun
from testbed.support.errors import MachineError, PartLostError, naming_the_run
from testbed.support.usage import start_again_in_huge_pages
from testbed.terminal.progress import Progress
from topos import Topology

#: Nodes from which on a simulation is faster in huge pages (`./run.sh bench simulate 2000`).
_MANY_NODES = 2_000
#: Spark's master that accounts.
DEFAULT_MASTER = "local[2]"
_Place = tuple[str, Callable[..., Any], Any]  # the datapath of a run, what makes its site, its work


def run_arguments(parser: ArgumentParser) -> None:
    add_experiment(parser)
    add_runs(parser)
    parser.add_argument(
        "--datapath", choices=["auto", "kernel", "user"], default="auto", help="Open vSwitch datapath (auto)"
    )
    add_force(parser)
    parser.add_argument(
        "--hold",
        action="store_true",
        help="keep the network up until Ctrl-C, which then ends the workload, not the run",
    )
    parser.add_argument(
        "--live",
        action="store_true",
        help="show traffic and deliveries while it runs, here and on a page on this machine",
    )
    add_page(parser, "--live-port")
    parser.add_argument(
        "--no-prepare",
        action="store_true",
        help="start Spark after the emulation, not beside it in a process that works only while a processor "
        "is idle (which a large network or scarce memory forbid, too)",
    )
    _add_accounting(parser)


def run_command(arguments: Namespace) -> int:
    """Returns 0 if the verdict holds, else 1.

    A run whose workload was interrupted leaves a folder that `cbcb account` accounts for, and nothing else.
    """
    from testbed.cli.prepared import PreparedConclusion, has_room
    from testbed.emulation.network.cleanup import clean_dead_runs
    from testbed.emulation.run.demand import capacity, demand, refuse, shortages, work_of
    from testbed.emulation.run.emulation import emulate
    from testbed.emulation.run.site import Site
    from testbed.machine.checks import require_machine
    from testbed.results.live.view import LiveView

    experiment = load(arguments)
    here = arguments.master.startswith("local")
    progress = Progress(Console())
    place: AbstractContextManager[_Place]
    if here:
        require_machine(experiment)
        work = work_of(experiment)
        if not arguments.force:
            refuse(shortages(demand(experiment, work[1]), capacity(arguments.runs)))
        place = nullcontext((choose_datapath(arguments.datapath, experiment.topology, progress), Site, work))
    else:
        place = _over_machines(experiment, arguments, progress)
    cleaned = clean_dead_runs()
    if cleaned.tags:
        progress.note(f"removed what {len(cleaned.tags)} dead runs had left")
    with ExitStack() as stack:
        view = None
        if arguments.live or arguments.control:
            view = stack.enter_context(LiveView(progress, arguments.live_port, arguments.control))
        ahead = None
        beside = not (arguments.no_prepare or arguments.no_account) and arguments.engine == "spark"
        if here and beside and has_room(experiment, arguments.master):
            ahead = stack.enter_context(closing(PreparedConclusion(arguments.master)))
        lost = None
        try:
            with place as (chosen, site, work):
                run_dir = emulate(
                    *(experiment, arguments.runs, chosen, progress, arguments.hold, view),
                    *(None if ahead is None else ahead.start, site, work),
                )
        except PartLostError as error:
            if arguments.no_account:
                raise
            progress.note(f"the run has ended early: {error}")
            run_dir, lost = error.run_dir, error
        if ahead is not None and lost is None:
            with naming_the_run(run_dir):
                if (status := ahead.conclude(run_dir)) is not None:
                    return status
        if not here:  # the files have come back
            arguments.master = DEFAULT_MASTER
        return _conclude(arguments, run_dir, progress)


@contextmanager
def _over_machines(experiment: Experiment, arguments: Namespace, progress: Progress) -> Iterator[_Place]:
    """Yields the place of one network over the machines of a cluster."""
    from testbed.emulation.machines.cut import cut_over, require_own, require_parts, slowest_part
    from testbed.emulation.machines.sites import Sites
    from testbed.emulation.run.demand import work_of
    from testbed.evaluation.sweeps.machines import cleaned, machines_for

    with machines_for(experiment, arguments.master, progress.note) as (spark, checked), cleaned(checked):
        parts = cut_over(experiment.topology, checked.answers)
        require_own(parts)
        check_machines(experiment.events, experiment.topology, [*parts.values()])
        workload, whole = work_of(experiment)
        if not arguments.force:
            require_parts(experiment, whole, parts, arguments.runs)
        kernel = all(each.datapath == "kernel" for each in parts)
        if arguments.datapath == "kernel" and not kernel:
            raise MachineError("--datapath kernel: not every machine has Open vSwitch's kernel module")
        chosen = "kernel" if kernel and arguments.datapath != "user" else "user"
        work = workload, slowest_part(experiment.topology, whole, parts)
        yield chosen, partial(Sites, spark, parts), work


def choose_datapath(asked: str, topology: Topology, progress: Progress) -> str:
    """The datapath of a run: "kernel" or "user".

    Args:
        asked: "auto": that of the kernel, where it has one whose queues suffice.

    Raises:
        MachineError: this machine has no such datapath for the topology.
    """
    if asked == "user":
        return asked
    if datapath() == "user":
        if asked == "auto":
            return "user"
        raise MachineError(
            "--datapath kernel: this kernel has no Open vSwitch module;"
            " modprobe openvswitch, or --datapath user"
        )
    try:
        require_backlog(topology)
    except MachineError as error:
        if asked == "kernel" or why_no_tun() is not None:
            raise
        progress.note(f"datapath: user, since {error}")
        return "user"
    return "kernel"


def simulate_arguments(parser: ArgumentParser) -> None:
    add_experiment(parser)
    add_runs(parser)
    parser.add_argument(
        "--captures",
        choices=("all", "links", "none"),
        default="all",
        help="captures to keep: all, those of links between routers, or none (all); the accounting knows of "
        "traffic what they hold",
    )
    _add_accounting(parser)


def _add_accounting(parser: ArgumentParser) -> None:
    """--master, --engine and --no-account, which `_conclude` reads."""
    add_master(parser, DEFAULT_MASTER)
    add_engine(parser)
    parser.add_argument(
        "--no-account", action="store_true", help="end with the run; `cbcb account` does the rest later"
    )


def simulate_command(arguments: Namespace) -> int:
    """Returns 0 if the verdict holds, else 1."""
    experiment = load(arguments)
    from testbed.sim.simulation import simulate

    if len(experiment.topology.nodes) >= _MANY_NODES:
        start_again_in_huge_pages()
    progress = Progress(Console())
    run_dir = simulate(experiment, arguments.runs, progress, arguments.captures)
    return _conclude(arguments, run_dir, progress)


def _conclude(arguments: Namespace, run_dir: Path, progress: Progress) -> int:
    if arguments.no_account:
        progress.note(f"not accounted for: {accounting(run_dir)}")
        return 0
    # pyarrow, Spark, pandas and matplotlib take seconds to load: only now are they needed.
    from testbed.results.conclude import conclude

    with naming_the_run(run_dir):
        return conclude(run_dir, arguments.master, progress, arguments.engine)
