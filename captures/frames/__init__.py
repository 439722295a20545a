"""CBCB frames in captures: reassembly, decoding to Arrow columns, compiled loops, splitting of files."""
