"""Our results beside the published ones: rows to run, their records, tables and figures."""
