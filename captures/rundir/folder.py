"""The run folder as the accounting reads it (ARCHITECTURE.md, "Run folder")."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from captures.frames.identity import CaptureIdentity

_LINK_PROPERTIES = ("bandwidth_mbps", "delay_ms", "loss_percent")


class RunFolderError(ValueError):
    """A run folder that cannot be accounted for; the message names file and field."""


@dataclass(frozen=True, slots=True)
class CapturedFile:
    """One entry of capture.json: which capture, its file, and tcpdump's own counters (frames)."""

    identity: CaptureIdentity
    file: str
    captured: int
    dropped: int
    received_by_filter: int | None = None


@dataclass(frozen=True, slots=True)
class LinkEnds:
    """A link of topology.json (fields: `topos.model.Link`)."""

    index: int
    u: int
    v: int
    u_port: int
    v_port: int
    cost: int = 1
    bandwidth_mbps: float | None = None
    delay_ms: float | None = None
    loss_percent: float | None = None

    @property
    def lossy(self) -> bool:
        return bool(self.loss_percent)


class RunFolder:
    """Reads the small files of a run folder. Every method raises RunFolderError on a missing or bad file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def links(self) -> list[LinkEnds]:
        entries = self._field(self._json("topology.json"), "links", "topology.json")
        try:
            return [
                LinkEnds(
                    index=int(entry["index"]),
                    u=int(entry["u"]),
                    v=int(entry["v"]),
                    u_port=int(entry["u_port"]),
                    v_port=int(entry["v_port"]),
                    cost=int(entry.get("cost", 1)),
                    **{name: _maybe_float(entry.get(name)) for name in _LINK_PROPERTIES},
                )
                for entry in entries
            ]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RunFolderError(
                f"{self.path / 'topology.json'}: links: expected index, u, v, u_port, v_port: {error!r}"
            ) from error

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes of topology.json: node, x and y (null: it says no place)."""
        name = "topology.json"
        entries = self._field(self._json(name), "nodes", name)
        with self._expecting(name, "id, and perhaps x and y, of each node"):
            return [
                {"node": int(entry["id"]), **{axis: _maybe_float(entry.get(axis)) for axis in ("x", "y")}}
                for entry in entries
            ]

    def routing_tables(self) -> dict[str, list[dict[str, Any]]]:
        """logs/tables.json: node -> rows of interface, scope, predicate; empty if the run kept none."""
        name = "logs/tables.json"
        if not (self.path / name).exists():
            return {}
        with self._expecting(name, "{node: rows of interface, scope, predicate}"):
            return {node: list(map(dict, rows)) for node, rows in self._json(name).items()}

    def captures(self) -> list[CapturedFile]:
        """The captures, each link with the index that topology.json gives it."""
        index = {frozenset((link.u, link.v)): link.index for link in self.links()}
        found = []
        for number, entry in enumerate(self._json("capture.json")):
            where = f"{self.path / 'capture.json'}: entry {number}"
            try:
                kind = entry["kind"]
                u, v, node = entry.get("u"), entry.get("v"), entry.get("node")
                if kind == "link":
                    identity = CaptureIdentity(entry["name"], kind, index[frozenset((u, v))], u, v)
                elif kind == "host" and isinstance(node, int):
                    identity = CaptureIdentity(entry["name"], kind, node=node)
                else:
                    raise RunFolderError(f"{where}: kind {kind!r}, node {node!r}; expected a link or a host")
                found.append(
                    CapturedFile(
                        identity,
                        entry["file"],
                        entry["captured"],
                        entry["dropped_by_kernel"],
                        entry.get("received_by_filter"),
                    )
                )
            except KeyError as error:
                raise RunFolderError(f"{where}: no field or no such link: {error}") from error
        return found

    @property
    def pcap_folder(self) -> Path:
        """Where the capture files are."""
        return self.path / "pcap"

    def capture_paths(self) -> dict[str, CaptureIdentity]:
        """The capture files by path: as capture.json says; of a run that goes on, as their names say."""
        if (self.path / "capture.json").exists():
            return {str(self.path / capture.file): capture.identity for capture in self.captures()}
        found = {}
        for link in self.links():
            name = f"link-{link.u}-{link.v}"
            found[name] = CaptureIdentity(name, "link", link.index, link.u, link.v)
        for node in self._field(self._json("topology.json"), "nodes", "topology.json"):
            name = f"host-{node['id']}"
            found[name] = CaptureIdentity(name, "host", node=node["id"])
        return {str(self.pcap_folder / f"{name}.pcap"): identity for name, identity in found.items()}

    def manifest(self) -> dict[str, Any]:
        manifest: dict[str, Any] = self._json("manifest.json")
        scale = self._field(manifest, "time_scale", "manifest.json")
        if not isinstance(scale, (int, float)) or scale <= 0:
            raise RunFolderError(
                f"{self.path / 'manifest.json'}: time_scale: {scale!r}; expected a number above 0"
            )
        return manifest

    def router_counters(self) -> dict[int, dict[str, Any]]:
        """counters/routers.json by node."""
        name = "counters/routers.json"
        expected = "frames_sent and frames_received, numbers of frames by type, for each node"
        with self._expecting(name, expected):
            counters = {int(node): dict(entry) for node, entry in self._json(name).items()}
            for entry in counters.values():
                for way in ("frames_sent", "frames_received"):
                    sum(entry[way].values())
        return counters

    def ovs_counters(self) -> dict[int, dict[int, dict[str, int]]]:
        """counters/ovs.json by node and port."""
        name = "counters/ovs.json"
        with self._expecting(name, "rx_packets and tx_packets of each port of each node"):
            return {
                int(node): {
                    int(port): {way: int(entry[way]) for way in ("rx_packets", "tx_packets")}
                    for port, entry in ports.items()
                }
                for node, ports in self._json(name).items()
            }

    def lines(self, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """The objects of a JSON Lines file, each after where it stands (FILE:LINE, for errors)."""
        try:
            with (self.path / name).open(encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    if line.strip():
                        where = f"{self.path / name}:{number}"
                        yield where, _object(where, line)
        except FileNotFoundError as error:
            raise RunFolderError(
                f"{self.path / name}: missing; only a run whose emulation ended can be accounted for"
            ) from error

    def workload_items(self) -> list[dict[str, Any]]:
        """The lines of workload.jsonl; empty if the run had no workload."""
        if not (self.path / "workload.jsonl").exists():
            return []
        return [item for _, item in self.lines("workload.jsonl")]

    @contextmanager
    def _expecting(self, name: str, expected: str) -> Iterator[None]:
        try:
            yield
        except RunFolderError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RunFolderError(f"{self.path / name}: expected {expected}: {error!r}") from error

    def _json(self, name: str) -> Any:
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise RunFolderError(
                f"{self.path / name}: missing; only a run whose emulation ended can be accounted for"
            ) from error
        except ValueError as error:
            raise RunFolderError(f"{self.path / name}: expected JSON: {error}") from error

    def _field(self, document: Any, field: str, name: str) -> Any:
        if not isinstance(document, dict) or field not in document:
            raise RunFolderError(f"{self.path / name}: no field {field}")
        return document[field]


def _object(where: str, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise RunFolderError(f"{where}: expected JSON: {error}") from error
    if not isinstance(value, dict):
        raise RunFolderError(f"{where}: expected a JSON object")
    return value


def _maybe_float(value: Any) -> float | None:
    return None if value is None else float(value)
