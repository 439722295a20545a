"""The names of all files and folders of a run folder.

No other module spells one of them.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path


def accounting(run: Path) -> str:
    """The command that accounts for a run, quoted for a shell."""
    return f"cbcb account {shlex.quote(str(run))}"


@dataclass(frozen=True, slots=True)
class At:
    """A path of a run folder, as an attribute of `RunLayout`.

    Attributes:
        name: of the file or folder, relative to the run folder.
    """

    name: str

    def __get__(self, run: RunLayout, kind: type) -> Path:
        return run.path / self.name


@dataclass(frozen=True)
class RunLayout:
    """The paths inside a run folder.

    Every attribute is a path under `path`; it says where the file is, not that it exists. Parameters that
    stand in a file name may be placeholders, such as ``"<n>"``: the document of the run folder is made that
    way.

    Attributes:
        path: the run folder.
    """

    path: Path

    # The inputs of the run.
    experiment = At("experiment.toml")
    topology = At("topology.json")
    workload = At("workload.jsonl")
    manifest = At("manifest.json")
    #: The keys of the members of a run with privacy.
    keys = At("keys.json")
    #: The keys of routers and controller of a run with security.
    network_keys = At("network-keys.json")
    #: The folder of the signing keys of a run whose issuers sign.
    signing_keys = At("signing-keys")
    #: The pieces of the experiment clock.
    clock = At("clock.jsonl")
    #: How late the parts of an emulation were.
    lag = At("lag.json")

    # The captures, and the list of them; those of IPv4 are apart from those of CBCB.
    captures_folder = At("pcap")
    captures = At("capture.json")
    ip_captures_folder = At("ip")
    ip_captures = At("ip.json")

    def capture(self, name: str) -> Path:
        """The capture file of the name that `link_capture_name` or the like gives."""
        return self.captures_folder / f"{name}.pcap"

    def ip_capture(self, name: str) -> Path:
        """The capture file of IPv4 on the device of the capture with that name."""
        return self.ip_captures_folder / f"{name}.pcap"

    def relative(self, path: Path) -> str:
        """A path of this folder as the files of the folder name it, for example ``pcap/link-0-1.pcap``."""
        return path.relative_to(self.path).as_posix()

    # The logs.
    logs_folder = At("logs")
    applications_folder = At("logs/applications")
    #: The records of all applications of a simulation.
    simulated_applications = At("logs/applications/simulation.jsonl")
    #: The records of the applications of a workload with privacy, which write them themselves.
    private_applications = At("logs/applications/members.jsonl")

    def applications_of(self, node: int | str) -> Path:
        """The records that one router wrote of its applications."""
        return self.applications_folder / f"r{node}.jsonl"

    def applications_after_restart(self, node: int | str, restart: int | str) -> Path:
        """The records that a router wrote after the restart of that number; in order behind those before."""
        return self.applications_folder / f"r{node}.restart-{restart}.jsonl"

    def application_of_member(self, node: int | str, process: int | str) -> Path:
        """The records of an application with a key that is not the workload's."""
        return self.applications_folder / f"member-{node}-{process}.jsonl"

    #: The records of a service that keeps some (`router.protocol.services.Service.keeps_records`).
    service_folder = At("logs/service")
    #: The records of the service of all routers of a simulation.
    simulated_service_records = At("logs/service/simulation.jsonl")

    def service_records_of(self, node: int | str) -> Path:
        """The records of the service of one router."""
        return self.service_folder / f"r{node}.jsonl"

    controller_log = At("logs/controller.jsonl")
    controller_config = At("logs/controller-config.json")
    controller_errors = At("logs/controller.err")
    #: The state that a controller leaves for one that is started after it.
    controller_state = At("logs/controller-state.json")
    routing_tables = At("logs/tables.json")
    #: The commands of the user to the running emulation.
    commands = At("logs/commands.jsonl")
    #: The faults of parts of the emulation.
    faults = At("logs/faults.jsonl")
    #: The log of the parent process of the routers.
    routers_log = At("logs/routers.jsonl")
    routers_specs = At("logs/routers-specs.json")
    routers_errors = At("logs/routers.err")
    routers_folder = At("logs/routers")
    spark_log = At("logs/spark.log")
    live_errors = At("logs/live.err")
    relay_errors = At("logs/relay.err")

    def router_log(self, node: int | str) -> Path:
        return self.routers_folder / f"r{node}.log"

    def router_counters(self, node: int | str) -> Path:
        """The counters that one router leaves when it ends; `routers_counters` collects those of all."""
        return self.routers_folder / f"r{node}.counters.json"

    # Recordings and counters.
    recordings_folder = At("recordings")
    counters_folder = At("counters")
    routers_counters = At("counters/routers.json")
    switches_counters = At("counters/ovs.json")
    switch_drops = At("counters/drops.json")

    def recording(self, node: int | str) -> Path:
        return self.recordings_folder / f"r{node}.rec"

    # The runner's measurements, and the results.
    timings = At("timings.json")
    simulation = At("simulation.json")
    oracle = At("oracle.jsonl")
    #: The oracle's answers on the rounds of attention-limited subscriptions.
    subscriptions = At("subscriptions.jsonl")
    #: The oracle's answers on a run of the attention-limited service as a whole.
    attention = At("attention.json")
    #: The folder of the tables in force.
    tables = At("parquet")
    #: The stages of the accounting that made the tables, which the next accounting replaces with them.
    accounting = At("parquet/accounting.json")
    #: The folder of the tables that an accounting is writing.
    tables_new = At("parquet.new")
    #: The folder of the tables that the new ones replace; it exists until the summary is written.
    tables_former = At("parquet.former")
    #: The folder of tables that are being deleted.
    tables_removed = At("parquet.removed")
    summary = At("summary.json")
    report = At("report.html")
    figures_folder = At("figures")


def link_capture_name(u: int | str, v: int | str) -> str:
    """The name of the capture of the link between the nodes `u` and `v`."""
    return f"link-{u}-{v}"


def tunnel_capture_name(u: int | str, v: int | str) -> str:
    """The name of the second capture of the link between the nodes `u` and `v`, of two machines, at `v`."""
    return f"tunnel-{v}-{u}"


def host_capture_name(node: int | str) -> str:
    """The name of the capture of the link between the switch and the router of a node."""
    return f"host-{node}"
