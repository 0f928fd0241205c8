"""What every launcher starts: a job on hosts, as processes whose output is handed on."""
