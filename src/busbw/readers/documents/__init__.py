"""Reads formats with named fields: records of busbw, JSON and CSV."""
