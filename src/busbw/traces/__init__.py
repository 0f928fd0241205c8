"""Traces: the operations that a job called, per rank."""
