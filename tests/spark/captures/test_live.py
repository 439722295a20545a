"""The live stream counts of growing captures what a batch counts of the finished captures."""

from __future__ import annotations

import select
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from captures.capturing.flush import flush_captures
from captures.datasource.live_counts import LinkCount, counts, stream_counts
from captures.source import register
from tests.support.polling import poll
from tests.support.run_folder import good_run

pytestmark = pytest.mark.spark


def totals(found: Iterable[LinkCount]) -> dict[tuple[int, str, int], tuple[int, int]]:
    frames: Counter[tuple[int, str, int]] = Counter()
    size: Counter[tuple[int, str, int]] = Counter()
    for one in found:
        frames[one.link, one.type, one.slot] += one.frames
        size[one.link, one.type, one.slot] += one.bytes
    return {key: (number, size[key]) for key, number in frames.items()}


def test_counts_each_frame_of_growing_captures_once(tmp_path: Path, spark: SparkSession) -> None:
    run = good_run().write(tmp_path / "run")
    whole = {file: file.read_bytes() for file in sorted((run / "pcap").glob("*.pcap"))}
    # As it is while the run goes on: nothing of the captures is known but their files.
    (run / "capture.json").unlink()
    for file, content in whole.items():
        file.write_bytes(content[:30])
    found: list[LinkCount] = []
    query = stream_counts(spark, run, found.extend, tmp_path / "work", 0.1)
    try:
        query.processAllAvailable()
        # The capture that a stream begins with is of no link.
        assert found == []
        for part in (0.3, 0.7, 1.0):
            for file, content in whole.items():
                # Not `write_bytes`, which first empties the file: the stream would see it shrink.
                with file.open("ab") as growing:
                    growing.write(content[growing.tell() : round(part * len(content))])
            query.processAllAvailable()
    finally:
        query.stop()
    register(spark)
    batch = spark.read.format("cbcb").load(str(run)).where("kind = 'link'")
    link_of = {"link-0-1": 0, "link-1-2": 1}
    expected = totals(LinkCount(link_of[name], *rest) for name, *rest in counts(batch).collect())
    assert totals(found) == expected
    assert {kind for _, kind, _ in expected} == {"MSG", "RA"}
    assert sum(one.frames for one in found) == sum(number for number, _ in expected.values()) > 5


def test_flushes_only_captures_of_the_run_that_can_be(tmp_path: Path) -> None:
    """Stand-ins for tcpdump: one for this run, one for another, one that the signal would kill."""
    script = (
        "import signal, sys\n"
        "from pathlib import Path\n"
        "Path('/proc/self/comm').write_text('tcpdump')\n"
        "if sys.argv[1] == 'handles':\n"
        "    signal.signal(signal.SIGUSR2, lambda *_: print('flushed', flush=True))\n"
        "print('ready', flush=True)\n"
        "while True: signal.pause()\n"
    )
    run, other = tmp_path / "run", tmp_path / "run-2"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", script, how, str(folder / "pcap" / "link-0-1.pcap")],
            stdout=subprocess.PIPE,
            text=True,
        )
        for folder, how in ((run, "handles"), (other, "handles"), (run, "dies"))
    ]
    try:
        outputs = [process.stdout for process in started if process.stdout is not None]
        assert [output.readline() for output in outputs] == ["ready\n"] * 3
        assert flush_captures(run) == 1
        assert outputs[0].readline() == "flushed\n"
        assert [process.poll() for process in started] == [None] * 3
        readable, _, _ = select.select(outputs[1:], [], [], 0)
        assert readable == []
    finally:
        for process in started:
            process.kill()
            process.communicate()


def test_tcpdump_takes_the_signal_for_flushing(tmp_path: Path) -> None:
    """A real tcpdump, with a filter that nothing passes: it goes on, and has written its header."""
    file = tmp_path / "run" / "pcap" / "link-0-1.pcap"
    file.parent.mkdir(parents=True)
    process = subprocess.Popen(
        ["tcpdump", "-i", "lo", "-w", str(file), "-Z", "root", "ether proto 0x88b5"],
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        if b"listening" not in process.stderr.readline():
            pytest.skip("tcpdump cannot capture here")
        assert flush_captures(tmp_path / "run") == 1
        poll(lambda: file.stat().st_size >= 24 or None, 10, "the header is written")
        assert process.poll() is None
    finally:
        process.terminate()
        process.communicate()
