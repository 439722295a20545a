"""Entry point of the process that watches an emulation: `python -m testbed.results.live RUN_DIR PORT`.

Prints one line of JSON, `{"url": ...}`, when the page is served. Ends on SIGTERM, or at the end of standard
input, which comes when the parent process ends.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

from testbed.results.live.server import LiveServer
from testbed.results.live.watch import Watcher, open_state
from testbed.support.errors import TestbedError, run_folder_errors
from testbed.support.processes import end_like_ctrl_c
from testbed.terminal.printable import put

_NICE = 19


def main() -> int:
    run_dir, port = Path(sys.argv[1]), int(sys.argv[2])
    # The emulation takes precedence over this process.
    os.nice(_NICE)
    end_like_ctrl_c()
    starter_gone = threading.Event()

    def wait_for_starter() -> None:
        # Not through sys.stdin: a thread blocked in it keeps the interpreter from ending in order.
        while os.read(0, 4096):
            pass
        starter_gone.set()

    threading.Thread(target=wait_for_starter, daemon=True).start()
    try:
        with run_folder_errors():
            state = open_state(run_dir)
        with LiveServer(state, port) as server, Watcher(state):
            put(json.dumps({"url": server.url}), flush=True)
            starter_gone.wait()
    except KeyboardInterrupt:
        return 0
    except TestbedError as error:
        put(error, file=sys.stderr)
        return error.status
    return 0


if __name__ == "__main__":
    sys.exit(main())
