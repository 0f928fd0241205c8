"""What several commands ask for alike: the engine's flags, runs that are kept, NICs, references, files."""
