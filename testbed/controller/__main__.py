"""Entry point of the controller process: `python -m testbed.controller CONFIG.json` (see `settings`)."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from pathlib import Path

from router.system import die_with
from testbed.controller.framework import load
from testbed.controller.settings import Settings, read_settings
from testbed.support.errors import InputError
from testbed.terminal import put


def main(arguments: list[str]) -> int:
    """Runs the controller; returns the exit status (2: the configuration cannot be used)."""
    if len(arguments) != 1:
        put("usage: python -m testbed.controller CONFIG.json", file=sys.stderr)
        return 2
    try:
        settings: Settings = read_settings(Path(arguments[0]))
    except InputError as error:
        put(error, file=sys.stderr)
        return error.status
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the runner, which then ends this process
    if settings.parent_pid is not None:
        try:
            die_with(settings.parent_pid, signal.SIGTERM)
        except ProcessLookupError as error:
            put(error, file=sys.stderr)
            return 1
    # Ryu has no other event library; the warning would only hide the last lines of this process.
    warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
    # Ryu looks up no names of hosts: eventlet would import the code for that in a sixth of a second.
    os.environ.setdefault("EVENTLET_NO_GREENDNS", "yes")
    # Imported late: importing Ryu takes a third of a second, and a wrong configuration is reported without.
    load(settings.framework)
    from testbed.controller.app import run

    return run(settings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
