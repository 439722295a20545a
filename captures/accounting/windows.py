"""The windows of the moving averages over experiment time."""

from __future__ import annotations

#: Window of the paper's figures 12 to 14, and the step by which it moves; experiment seconds.
WINDOW_S, STEP_S = 120.0, 2.0
