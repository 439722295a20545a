"""The run folders on this machine: making a new one, finding one, and writing the inputs of a run."""
