"""Events of an experiment: what applications are asked to do, and faults of the network."""
