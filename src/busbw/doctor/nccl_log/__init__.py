"""Reads what NCCL prints with NCCL_DEBUG=INFO: messages, communicators and connections."""
