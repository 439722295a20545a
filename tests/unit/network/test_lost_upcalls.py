"""Failed upcalls of an ovs-vswitchd that is killed."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from pathlib import Path

from testbed.emulation.network.switch_daemons import SWITCHES, Daemon, Group


def test_what_was_lost_before_a_kill_is_not_forgotten(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, 0, Group("/proc/self/ns/net", {0: [1]}), "system@ovs-system")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(daemon.path("ctl")))
        server.listen()

        def answer() -> None:
            for lost in (3, 10, 2):
                connection, _ = server.accept()
                with connection:
                    asked = json.loads(connection.recv(4096))
                    text = f"  lookups: hit:1 missed:2 lost:{lost}"
                    connection.sendall(
                        json.dumps({"id": asked["id"], "result": text, "error": None}).encode()
                    )

        answers = threading.Thread(target=answer)
        answers.start()
        assert daemon.take_lost() == 0
        daemon.processes.append(subprocess.Popen(["sleep", "60"]))
        daemon.kill(SWITCHES)
        daemon.lost_upcalls = 0  # of the next ovs-vswitchd, with a datapath of its own
        assert daemon.take_lost() == 7 + 2
        answers.join()
