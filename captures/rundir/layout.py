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
class RunLayout:
    """The paths inside a run folder.

    Every property is a path under `path`; it says where the file is, not that it exists. Parameters that
    stand in a file name may be placeholders, such as ``"<n>"``: the document of the run folder is made that
    way.

    Attributes:
        path: the run folder.
    """

    path: Path

    # The inputs of the run.

    @property
    def experiment(self) -> Path:
        return self.path / "experiment.toml"

    @property
    def topology(self) -> Path:
        return self.path / "topology.json"

    @property
    def workload(self) -> Path:
        return self.path / "workload.jsonl"

    @property
    def manifest(self) -> Path:
        return self.path / "manifest.json"

    @property
    def keys(self) -> Path:
        """The keys of the members of a run with privacy."""
        return self.path / "keys.json"

    @property
    def network_keys(self) -> Path:
        """The keys of routers and controller of a run with security."""
        return self.path / "network-keys.json"

    @property
    def signing_keys(self) -> Path:
        """The folder of the signing keys of a run whose issuers sign."""
        return self.path / "signing-keys"

    @property
    def clock(self) -> Path:
        """The pieces of the experiment clock."""
        return self.path / "clock.jsonl"

    @property
    def lag(self) -> Path:
        """How late the parts of an emulation were."""
        return self.path / "lag.json"

    # The captures.

    @property
    def captures_folder(self) -> Path:
        return self.path / "pcap"

    @property
    def captures(self) -> Path:
        """The list of the captures."""
        return self.path / "capture.json"

    def capture(self, name: str) -> Path:
        """The capture file of the name that `link_capture_name` or `host_capture_name` gives."""
        return self.captures_folder / f"{name}.pcap"

    @property
    def ip_captures_folder(self) -> Path:
        """The captures of IPv4, apart from those of CBCB."""
        return self.path / "ip"

    @property
    def ip_captures(self) -> Path:
        """The list of the captures of IPv4."""
        return self.path / "ip.json"

    def ip_capture(self, name: str) -> Path:
        """The capture file of IPv4 on the device of the capture with that name."""
        return self.ip_captures_folder / f"{name}.pcap"

    def relative(self, path: Path) -> str:
        """A path of this folder as the files of the folder name it, for example ``pcap/link-0-1.pcap``."""
        return path.relative_to(self.path).as_posix()

    # The logs.

    @property
    def logs_folder(self) -> Path:
        return self.path / "logs"

    @property
    def applications_folder(self) -> Path:
        return self.logs_folder / "applications"

    def applications_of(self, node: int | str) -> Path:
        """The records that one router wrote of its applications."""
        return self.applications_folder / f"r{node}.jsonl"

    def applications_after_restart(self, node: int | str, restart: int | str) -> Path:
        """The records that a router wrote after the restart of that number; in order behind those before."""
        return self.applications_folder / f"r{node}.restart-{restart}.jsonl"

    @property
    def simulated_applications(self) -> Path:
        """The records of all applications of a simulation."""
        return self.applications_folder / "simulation.jsonl"

    @property
    def private_applications(self) -> Path:
        """The records of the applications of a workload with privacy, which write them themselves."""
        return self.applications_folder / "members.jsonl"

    def application_of_member(self, node: int | str, process: int | str) -> Path:
        """The records of an application with a key that is not the workload's."""
        return self.applications_folder / f"member-{node}-{process}.jsonl"

    @property
    def service_folder(self) -> Path:
        """The records of a service that keeps some (`router.protocol.service.Service.keeps_records`)."""
        return self.logs_folder / "service"

    def service_records_of(self, node: int | str) -> Path:
        """The records of the service of one router."""
        return self.service_folder / f"r{node}.jsonl"

    @property
    def simulated_service_records(self) -> Path:
        """The records of the service of all routers of a simulation."""
        return self.service_folder / "simulation.jsonl"

    @property
    def controller_log(self) -> Path:
        return self.logs_folder / "controller.jsonl"

    @property
    def controller_config(self) -> Path:
        return self.logs_folder / "controller-config.json"

    @property
    def controller_errors(self) -> Path:
        return self.logs_folder / "controller.err"

    @property
    def controller_state(self) -> Path:
        """The state that a controller leaves for one that is started after it."""
        return self.logs_folder / "controller-state.json"

    @property
    def routing_tables(self) -> Path:
        return self.logs_folder / "tables.json"

    @property
    def commands(self) -> Path:
        """The commands of the user to the running emulation."""
        return self.logs_folder / "commands.jsonl"

    @property
    def faults(self) -> Path:
        """The faults of parts of the emulation."""
        return self.logs_folder / "faults.jsonl"

    @property
    def routers_log(self) -> Path:
        """The log of the parent process of the routers."""
        return self.logs_folder / "routers.jsonl"

    @property
    def routers_specs(self) -> Path:
        return self.logs_folder / "routers-specs.json"

    @property
    def routers_errors(self) -> Path:
        return self.logs_folder / "routers.err"

    @property
    def routers_folder(self) -> Path:
        return self.logs_folder / "routers"

    def router_log(self, node: int | str) -> Path:
        return self.routers_folder / f"r{node}.log"

    def router_counters(self, node: int | str) -> Path:
        """The counters that one router leaves when it ends; `routers_counters` collects those of all."""
        return self.routers_folder / f"r{node}.counters.json"

    @property
    def spark_log(self) -> Path:
        return self.logs_folder / "spark.log"

    @property
    def live_errors(self) -> Path:
        return self.logs_folder / "live.err"

    # Recordings and counters.

    @property
    def recordings_folder(self) -> Path:
        return self.path / "recordings"

    def recording(self, node: int | str) -> Path:
        return self.recordings_folder / f"r{node}.rec"

    @property
    def counters_folder(self) -> Path:
        return self.path / "counters"

    @property
    def routers_counters(self) -> Path:
        return self.counters_folder / "routers.json"

    @property
    def switches_counters(self) -> Path:
        return self.counters_folder / "ovs.json"

    @property
    def switch_drops(self) -> Path:
        return self.counters_folder / "drops.json"

    # The runner's measurements, and the results.

    @property
    def timings(self) -> Path:
        return self.path / "timings.json"

    @property
    def simulation(self) -> Path:
        return self.path / "simulation.json"

    @property
    def oracle(self) -> Path:
        return self.path / "oracle.jsonl"

    @property
    def subscriptions(self) -> Path:
        """The oracle's answers on the rounds of attention-limited subscriptions."""
        return self.path / "subscriptions.jsonl"

    @property
    def attention(self) -> Path:
        """The oracle's answers on a run of the attention-limited service as a whole."""
        return self.path / "attention.json"

    @property
    def tables(self) -> Path:
        """The folder of the tables in force."""
        return self.path / "parquet"

    @property
    def accounting(self) -> Path:
        """The stages of the accounting that made the tables, which the next accounting replaces with them."""
        return self.tables / "accounting.json"

    @property
    def tables_new(self) -> Path:
        """The folder of the tables that an accounting is writing."""
        return self.path / "parquet.new"

    @property
    def tables_former(self) -> Path:
        """The folder of the tables that the new ones replace; it exists until the summary is written."""
        return self.path / "parquet.former"

    @property
    def tables_removed(self) -> Path:
        """The folder of tables that are being deleted."""
        return self.path / "parquet.removed"

    @property
    def summary(self) -> Path:
        return self.path / "summary.json"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def figures_folder(self) -> Path:
        return self.path / "figures"


def link_capture_name(u: int | str, v: int | str) -> str:
    """The name of the capture of the link between the nodes `u` and `v`."""
    return f"link-{u}-{v}"


def host_capture_name(node: int | str) -> str:
    """The name of the capture of the link between the switch and the router of a node."""
    return f"host-{node}"
