"""Reads tables that are not those of nccl-tests: Markdown and HTML (`grids`), plain tables, reports of hccl_demo."""
