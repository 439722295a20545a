"""Monitoring: agents publish events, an operator sees the severe ones, and changes what counts as severe.

Everything happens in one asyncio program. Start a network (`cbcb run --hold`), then run this file with nodes
of the network: `.venv/bin/python examples/monitoring.py [OPERATOR AGENT...]`.
"""

from __future__ import annotations

import asyncio
import sys

import testbed

SEVERITIES = (2, 5, 7, 3, 9, 6)
#: Wall seconds that the slowest event may take.
PATIENCE_S = 10.0


async def agent(node: str, number: int) -> None:
    """Publishes an event of each severity."""
    async with testbed.connect_async(node, f"agent-{number}") as client:
        for severity in SEVERITIES:
            await client.send_message(f'class = "alert" host = "{client.app}" severity = {severity}')


async def expect(operator: testbed.AsyncClient, events: int) -> list[tuple[str, int]]:
    """Returns the next events: host and severity, sorted."""
    found = []
    async with asyncio.timeout(PATIENCE_S):
        async for delivery in operator:
            found.append((str(delivery.attributes["host"]), int(delivery.attributes["severity"])))
            if len(found) == events:
                break
    return sorted(found)


async def main(nodes: list[str]) -> None:
    network = testbed.running()
    async with testbed.connect_async(nodes[0], "operator") as operator:
        for threshold in (6, 8):
            number = await operator.subscribe(f'class = "alert" and severity > {threshold}')
            await asyncio.to_thread(network.settle)
            agents = nodes[1:]
            severe = sum(severity > threshold for severity in SEVERITIES) * len(agents)
            await asyncio.gather(*(agent(node, number) for number, node in enumerate(agents)))
            print(f"severity above {threshold}: {await expect(operator, severe)}")
            await operator.unsubscribe(number)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:] or ["0", "2", "3"]))
