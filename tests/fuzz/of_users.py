"""Targets of what users write: predicates, topologies, traces, contents, experiments, commands to a run."""

from __future__ import annotations

import json
from contextlib import suppress

from tests.fuzz.inputs import LONGEST, Run, Source, files_of_this_process


def parsers() -> Run:
    """Predicates, messages, the notation of `cbcb match`, and scripts of cbcbsim."""
    from router.predicates.lexer import ParseError
    from router.predicates.parser import parse_message, parse_predicate
    from router.predicates.printer import format_message, format_predicate
    from testbed.experiments.config.cbcbsim import read_script
    from testbed.experiments.siena_ff import literal

    def run(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        with suppress(ParseError):
            predicate = parse_predicate(text)
            assert parse_predicate(format_predicate(predicate)) == predicate
        with suppress(ParseError):
            message = parse_message(text)
            assert parse_message(format_message(message)) == message
        with suppress(ParseError):
            read_script("fuzzed", text)
        with suppress(ValueError):
            literal(text)

    return run


def topologies() -> Run:
    """Topology files: BRITE, GraphML, TOML, JSON; what loads is written and loads again."""
    from topos import TopologyError
    from topos.loaders import from_json, load, to_json

    suffixes = (".brite", ".graphml", ".toml", ".json")
    folder = files_of_this_process()

    def run(data: bytes) -> None:
        source = Source(data)
        path = folder / f"fuzzed{suffixes[source.number(len(suffixes))]}"
        path.write_bytes(source.rest())
        with suppress(TopologyError):
            topology = load(path, keep_properties=True)
            again = from_json(to_json(topology))
            assert (again.nodes, again.links) == (topology.nodes, topology.links)

    return run


def workloads() -> Run:
    """Traces of requests: CSV and JSON lines."""
    from testbed.experiments.config.load import load_experiment
    from testbed.experiments.workload.given import read_trace
    from testbed.support.errors import InputError

    folder = files_of_this_process()
    path = folder / "experiment.toml"
    path.write_text('duration_s = 60\n[topology]\ngenerator = "ring"\nnodes = 4\n[workload]\n')
    experiment = load_experiment(path)

    def run(data: bytes) -> None:
        source = Source(data)
        trace = folder / f"fuzzed{('.csv', '.jsonl')[source.number(2)]}"
        trace.write_bytes(source.rest())
        with suppress(InputError):
            read_trace(trace, experiment)

    return run


def experiments() -> Run:
    """Experiment files; a network of its own, since generators take as long as the network is large."""
    from testbed.experiments.config.load import load_experiment
    from testbed.support.errors import InputError
    from topos.generators import ring

    topology = ring(5)
    path = files_of_this_process() / "fuzzed.toml"

    def run(data: bytes) -> None:
        path.write_bytes(data)
        with suppress(InputError):
            load_experiment(path, topology=topology)

    return run


def contents() -> Run:
    """Schemas and distributions of workloads; those that load are drawn from."""
    from random import Random

    from router.predicates.parser import parse_message, parse_predicate
    from router.predicates.printer import format_message, format_predicate
    from testbed.experiments.config import WorkloadOptions
    from testbed.experiments.drawing import Contents
    from testbed.experiments.drawing.distributions import Distributions
    from testbed.experiments.drawing.schema import Schema
    from testbed.support.errors import InputError

    folder = files_of_this_process()
    schema = folder / "fuzzed.toml"
    valid = {
        "attr_names": "1 a\n1 b\n",
        "constr_names": "1 a\n1 b\n",
        "types": "1 i\n1 s\n1 d\n1 b\n",
        **{f"{kind}_operators": "1 =\n1 !=\n" for kind in ("int", "string", "double", "bool")},
        "int_values": "1 7\n",
        "string_values": "1 x\n",
        "double_values": "1 0.5\n",
        "bool_values": "1 0\n1 1\n",
    }
    names = tuple(valid)
    for name, text in valid.items():
        (folder / f"{name}.dist").write_text(text)
    sizes = WorkloadOptions()

    def draw(content: Contents) -> None:
        random = Random(1)
        for _ in range(3):
            message, predicate = content.draw_message(random, sizes), content.draw_predicate(random, sizes)
            assert parse_message(format_message(message)) == message
            assert parse_predicate(format_predicate(predicate)) == predicate

    def run(data: bytes) -> None:
        source = Source(data)
        kind = source.number(3)
        with suppress(InputError):
            if kind < 2:
                schema.write_bytes(source.rest())
                draw(Schema(schema, (None, 0.25)[kind]))
                return
            name = names[source.number(len(names))]
            path = folder / f"{name}.dist"
            path.write_bytes(source.rest())
            try:
                draw(Distributions(folder))
            finally:
                path.write_text(valid[name])

    return run


def control() -> Run:
    """Lines of commands to a run, on a simulated network; answers are JSON, and their log can be read."""
    from rich.console import Console

    from captures.rundir import RunLayout
    from captures.rundir.faults import COMMANDS
    from testbed.emulation.control.commands import Commands
    from testbed.experiments.config.load import load_experiment
    from testbed.sim.simulation import Simulation
    from testbed.terminal.progress import Progress
    from topos import PROPERTIES

    folder = files_of_this_process()
    path = folder / "experiment.toml"
    path.write_text('duration_s = 60\nworkload = false\n[topology]\ngenerator = "ring"\nnodes = 4\n')
    layout = RunLayout(folder / "run")
    layout.logs_folder.mkdir(parents=True)
    simulation = Simulation(load_experiment(path), layout.path, Progress(Console(quiet=True)), "none")
    simulation.set_up()
    network, topology = simulation.network, simulation.experiment.topology
    commands = Commands(
        folder / "socket", layout, topology, network, str, network.shape, lambda: None, lambda: 0.2
    )

    def run(data: bytes) -> None:
        layout.commands.unlink(missing_ok=True)
        answers = [commands.answer(line) for line in data[:LONGEST].split(b"\n")]
        for answer in answers:
            json.dumps(answer, allow_nan=False)
        COMMANDS.read_all(layout)
        # Each input finds the network as it was.
        for node in topology.nodes:
            network.set_node(node.id, True)
        for link in topology.links:
            network.set_link(link.u, link.v, True)
        network.shape(None, dict.fromkeys(PROPERTIES))

    return run
