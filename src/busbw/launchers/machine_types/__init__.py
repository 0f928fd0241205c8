"""ADD A MACHINE TYPE HERE: one TOML file each, and `systems`, which reads them."""
