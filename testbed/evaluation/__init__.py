"""What runs are made for: figures of the papers, sweeps of parameters, attacks on private frames."""
