"""Schedules of statements for CPUs: the candidates, the cost model, the search, the log."""
