"""Parts that all launchers share: the job, its hosts, and child processes with forwarded output."""
