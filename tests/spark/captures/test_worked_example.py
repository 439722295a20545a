"""The worked example of docs/reference/pcap-source.md prints what the document says."""

from __future__ import annotations

import io
import re
import subprocess
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from captures.datasource.formats import register
from tests.support.paths import DOCS
from tests.support.wire_tshark import needs_tshark

pytestmark = pytest.mark.spark

_BLOCK = re.compile(r"^```(python|sh|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@needs_tshark
def test_the_commands_print_what_the_document_says(tmp_path: Path, spark: SparkSession) -> None:
    register(spark)
    page = (DOCS / "reference/pcap-source.md").read_text()
    section = page.split("\n## Worked example\n")[1].split("\n## ")[0]
    names: dict[str, Any] = {"spark": spark}
    printed = ""
    languages = []
    for language, text in _BLOCK.findall(section.replace("/data/example", str(tmp_path / "example"))):
        languages.append(language)
        if language == "python":
            with redirect_stdout(io.StringIO()) as output:
                exec(compile(text, "docs/reference/pcap-source.md", "exec"), names)
            printed = output.getvalue()
        elif language == "sh":
            command = ["bash", "-c", text]
            printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        else:
            assert printed == text
    assert languages == ["python", "python", "text", "python", "sh", "text"]
