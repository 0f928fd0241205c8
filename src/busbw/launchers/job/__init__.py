"""Parts that all launchers share: the job and its launch plan, its hosts, and child processes with forwarded output."""
