"""How a trace is printed."""

from __future__ import annotations

from testbed.results.trace import Branch, Receiver, Stop, Trace
from testbed.results.trace.show import lines


def test_times_are_never_in_exponents_and_one_before_the_sending_has_its_sign() -> None:
    source = Stop(0, None, 0, 0.0, branches=[Branch(1, 1, True, 1.2, 1, False, None)])
    # The clock was set back between a request to send and a delivery.
    early, late = (Receiver(name, delay_s, 1, True, True) for name, delay_s in (("a", -0.0005), ("b", 1.234)))
    reached = Stop(1, 0, 1, 1.2344, receivers=[early, late])
    trace = Trace(0, 1, 1, "a = 1", 0.5, 500_000_000, 1, True, [source, reached], {})
    assert list(lines(trace))[-4:] == [
        "r0",
        "└─ r1  by interface 1, hop 1, +1234.40 ms",
        "   ├─ ✓ delivered to a -0.50 ms",
        "   └─ ✓ delivered to b +1234.00 ms",
    ]
