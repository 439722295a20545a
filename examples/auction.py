"""An English auction without an auctioneer's address book.

Bidders declare interest in prices below their limit; the seller announces each new price, and whoever is
still interested bids a step more. The seller subscribes to bids on its own lot. Nobody knows an address.

Start a network (`cbcb run --hold`, also with `--set privacy.mode=bloom`), then run this file with its nodes:
`.venv/bin/python examples/auction.py [SELLER BIDDER...]`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import testbed

LOT, START, STEP = "lot-17", 100, 25
#: What each bidder pays at most.
LIMITS = (180, 260, 225)
#: Wall seconds after which a lot without a bid is sold, and a bidder without a price passed over.
PATIENCE_S, PRICE_S = 2.0, 0.5


@dataclass
class Bidder:
    """A bidder: an application that hears of prices it can still beat."""

    client: testbed.Client
    limit: int

    def answer(self, price: int, leader: str) -> None:
        """Bids a step more than the price, unless the bidder leads or the bid exceeds the limit."""
        bid = price + STEP
        if leader != self.client.app and bid <= self.limit:
            self.client.send_message(f'type = "bid" lot = "{LOT}" price = {bid} bidder = "{self.client.app}"')


def auction(seller_node: str, bidder_nodes: list[str]) -> tuple[str, int]:
    """Returns the winner and the price."""
    network = testbed.running()
    # None where routers read messages; with keys, the library logs what the routers cannot read.
    key = network.keys()
    with testbed.connect(seller_node, "seller", key=key) as seller:
        seller.subscribe(f'type = "bid" and lot = "{LOT}"')
        bidders = [
            Bidder(testbed.connect(node, f"bidder-{number}", key=key), limit)
            for number, (node, limit) in enumerate(zip(bidder_nodes, LIMITS, strict=False))
        ]
        for each in bidders:
            each.client.subscribe(f'type = "price" and category = "clock" and price < {each.limit}')
        network.settle()

        price, leader = START, ""
        while True:
            seller.send_message(
                f'type = "price" category = "clock" lot = "{LOT}" price = {price} leader = "{leader}"'
            )
            for each in bidders:
                for delivery in each.client.deliveries(timeout=PRICE_S):
                    each.answer(int(delivery.attributes["price"]), str(delivery.attributes["leader"]))
            bids = list(seller.deliveries(timeout=PATIENCE_S))
            better = [bid for bid in bids if int(bid.attributes["price"]) > price]
            if not better:
                break
            best = max(better, key=lambda bid: int(bid.attributes["price"]))
            price, leader = int(best.attributes["price"]), str(best.attributes["bidder"])
            print(f"{leader} bids {price}")
        for each in bidders:
            each.client.close()
    return leader, price


if __name__ == "__main__":
    nodes = sys.argv[1:] or ["0", "1", "2", "3"]
    winner, paid = auction(nodes[0], nodes[1:])
    print(f"sold to {winner} for {paid}")
