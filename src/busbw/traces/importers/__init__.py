"""Importers of recordings of other programs. Each makes a `Trace`; `IMPORTERS` is the list that readers try."""

from busbw.traces.importers import chakra, flight_recorder, inspector, kineto, nccl_log
from busbw.traces.importers.importer import Importer

__all__ = ["IMPORTERS", "Importer"]

IMPORTERS = (
    Importer("NCCL Inspector", "inspector", inspector.recognizes, inspector.read),
    Importer("PyTorch flight recorder", "flight recorder", flight_recorder.recognizes, flight_recorder.read, True),
    Importer("PyTorch profiler", "kineto", kineto.recognizes, kineto.read),
    Importer("Chakra", "chakra", chakra.recognizes, chakra.read, True),
    Importer("NCCL log", "NCCL log", nccl_log.recognizes, nccl_log.read),
)
"""All importers, more specific ones first."""
