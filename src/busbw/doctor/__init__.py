"""Finds the cause of slow communication without a benchmark: checks of a machine, of a job's log, and between nodes.

ADD A CHECK: one file in `checks/AREA/`, with a function `@check`, and its test in `tests/python/doctor/AREA/`. A check
reads the machine only through `Machine`, so that the check has the same result on a capture.
"""
