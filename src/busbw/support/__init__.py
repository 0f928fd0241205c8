"""Small helpers of several packages: files, signals, JSON output, catalogs, near misses, secret variables."""
