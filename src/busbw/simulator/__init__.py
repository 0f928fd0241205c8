"""Simulated clusters for `busbw find`: fabrics, faults and noise.

The simulation shares only the description of a cluster with the inference. It computes rates from the capacities of all
links on a path and the flows that share them.
"""
