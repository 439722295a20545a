"""Files to start from elsewhere, and the page of topology files: they name what the checkout has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.cli.main import COMMANDS
from tests.support.paths import DOCS, ROOT
from topos.build import MAX_LINKS, MAX_NODES
from topos.loaders import LINK_KEYS, NODE_KEYS, SUFFIXES

_MACHINES = ROOT / "examples" / "machines"
_WORKFLOWS = sorted(
    [*(ROOT / ".github" / "workflows").glob("*.yml"), *(ROOT / "examples" / "ci").glob("*.yml")]
)


def _yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_the_devcontainer_is_the_image_with_the_rights_of_an_emulation() -> None:
    place = ROOT / ".devcontainer"
    found = json.loads((place / "devcontainer.json").read_text(encoding="utf-8"))
    assert (place / found["build"]["dockerfile"]).samefile(ROOT / "Dockerfile")
    assert (place / found["build"]["context"]).samefile(ROOT)
    assert found["privileged"]
    assert f"WORKDIR {found['workspaceFolder']}\n" in (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_cloud_init_makes_the_environment_of_a_clone() -> None:
    path = _MACHINES / "cloud-init.yaml"
    assert path.read_text(encoding="utf-8").startswith("#cloud-config\n")
    found = _yaml(path)
    assert found.keys() == {"package_update", "packages", "write_files", "runcmd"}
    clone = next(command for command in found["runcmd"] if "clone" in command)
    assert [clone[-1] + "/run.sh", "setup"] in found["runcmd"]
    modules = [line for line in found["write_files"][0]["content"].splitlines() if not line.startswith("#")]
    assert modules == ["openvswitch", "sch_netem", "sch_tbf"]


@pytest.mark.parametrize("path", _WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_what_the_checkout_has(path: Path) -> None:
    workflow = _yaml(path)
    # `on` is a boolean of YAML 1.1.
    assert workflow[True]
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert steps[0] == {"uses": "actions/checkout@v4"}
    commands = " ".join(step.get("run", "") for step in steps)
    for text in re.findall(r"run\.sh test((?: tests/\S+)*)", commands):
        assert all((ROOT / each).is_dir() for each in text.split())
    for name in re.findall(r"cbcb-testbed (\w+) ", commands):
        assert name in COMMANDS
    assert all(job["timeout-minutes"] <= 90 for job in workflow["jobs"].values())


def test_the_vagrantfile_sets_the_copy_up() -> None:
    text = (_MACHINES / "Vagrantfile").read_text(encoding="utf-8")
    folder = re.search(r'synced_folder "\.", "([^"]+)"', text)
    assert folder is not None
    assert f"cd {folder[1]} && ./run.sh setup && .venv/bin/cbcb doctor" in text
    # Ruby itself is asked where it is installed.
    if ruby := shutil.which("ruby"):
        subprocess.run([ruby, "-c", _MACHINES / "Vagrantfile"], check=True, capture_output=True)


def test_the_reference_of_topology_files_has_every_key_and_suffix_and_the_limits() -> None:
    page = (DOCS / "reference/topology-file.md").read_text()
    assert {*NODE_KEYS, *LINK_KEYS} <= set(re.findall(r'^\| `"?([a-z_A-Z]+)"?` \|', page, re.MULTILINE))
    for suffix in SUFFIXES:
        assert f"`{suffix}`" in page, suffix
    assert f"at most {MAX_NODES:,} nodes and {MAX_LINKS:,} links" in " ".join(page.split())
