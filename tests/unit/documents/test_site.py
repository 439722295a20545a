"""The site made from docs/: it builds without a network, and its pages load nothing from elsewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

import testbed.api
from testbed.cli.documents import SCHEMAS, without_outer_links
from testbed.cli.main import COMMANDS
from tests.support.paths import DOCS, ROOT
from topos.build import MAX_LINKS, MAX_NODES
from topos.loaders import SUFFIXES


def test_links_that_leave_the_documents_become_paths() -> None:
    text = (
        "[examples/](../examples) and [a run](../captures/x.py#top), [here](tables.md#a), [x](https://e.org/)"
    )
    expected = "`examples` and a run (`captures/x.py`), [here](tables.md#a), [x](https://e.org/)"
    assert without_outer_links(text, "index.md") == expected
    assert without_outer_links("[up](../glossary.md)", "adr/0001.md") == "[up](../glossary.md)"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if None in map(find_spec, ("mkdocs", "material", "mkdocstrings")):
        pytest.skip("MkDocs is not installed (requirements.lock has it)")
    folder = tmp_path_factory.mktemp("site")
    # Without a network, where a namespace can be made.
    alone = ["unshare", "--net"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*alone, sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_of_docs_is_a_page_of_the_site(site: Path) -> None:
    pages = {path.relative_to(DOCS).with_suffix("") for path in DOCS.rglob("*.md")}
    built = {path.parent.relative_to(site) for path in site.rglob("index.html")}
    assert {path.name for path in (site / "schemas").iterdir()} == {path.name for path in SCHEMAS.iterdir()}
    # A README is the index of its folder.
    expected = {page.parent if page.name in ("README", "index") else page for page in pages}
    assert expected - built == set()


def test_the_reference_of_python_has_every_name_and_no_path_of_this_machine(site: Path) -> None:
    page = (site / "reference" / "api" / "index.html").read_text(encoding="utf-8")
    assert sorted(re.findall(r'<h2 id="testbed\.api\.(\w+)"', page)) == sorted(testbed.api.__all__)
    assert str(ROOT) not in page


def test_the_pages_load_nothing_from_elsewhere(site: Path) -> None:
    loading = re.compile(
        r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\s\"'>]+)"
    )
    found = {
        (path.name, link)
        for path in site.rglob("*.html")
        for link in loading.findall(path.read_text(encoding="utf-8"))
    }
    assert found == set()


def test_no_type_of_a_column_becomes_an_element_of_a_page(site: Path) -> None:
    pages = [path.read_text(encoding="utf-8") for path in (site / "reference").rglob("*.html")]
    assert re.findall(r"<(?:item|struct|string|u?int|bigint)\b", "".join(pages)) == []


# Files to start from elsewhere, and the page of topology files: they name what the checkout has.
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


def test_the_reference_of_topology_files_has_every_suffix_and_the_limits() -> None:
    page = (DOCS / "reference/topology-file.md").read_text()
    for suffix in SUFFIXES:
        assert f"`{suffix}`" in page, suffix
    assert f"at most {MAX_NODES:,} nodes and {MAX_LINKS:,} links" in " ".join(page.split())
