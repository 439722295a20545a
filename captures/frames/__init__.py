"""CBCB frames in captures: reassembly, decoding to Arrow columns, compiled loops, parts of files, index."""
