"""The run folders of this machine: making and finding a folder, and writing the inputs of a run."""
