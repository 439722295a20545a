"""tcpdump on every link: started and confirmed ready before the routers, stopped last."""
