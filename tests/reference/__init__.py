"""The nine resources in plain Python without SQL, to compare the files of the engine with."""
