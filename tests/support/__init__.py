"""What tests share: networks in memory, capture files, run folders, processes."""
