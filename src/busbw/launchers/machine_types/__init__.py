"""ADD A MACHINE TYPE HERE: one TOML file per machine type, and `machine_type.py`, which reads them."""
