"""`python -m testbed.package FOLDER`: builds the wheel `cbcb-captures`, and prints its path."""

from __future__ import annotations

import sys
from pathlib import Path

from testbed.package.modules import PackagingError
from testbed.package.wheel import write_wheel
from testbed.terminal.printable import put

if len(sys.argv) != 2:
    sys.exit("usage: python -m testbed.package FOLDER")
try:
    put(write_wheel(Path(sys.argv[1])))
except (OSError, PackagingError) as error:
    sys.exit(str(error))
