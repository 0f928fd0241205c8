"""Search for settings that make a collective faster, for `busbw tune`.

A knob is one tunable factor. A setting is a group of environment variables, and a candidate is a setting to try
(`knobs`). `screen` measures many candidates at few sizes. `confirm` measures the best ones by A/B sessions. `outputs`
formats the files.
"""
