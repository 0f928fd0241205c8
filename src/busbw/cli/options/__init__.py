"""Options that several commands share: engine flags, run filters, destinations, NICs, references, files."""
