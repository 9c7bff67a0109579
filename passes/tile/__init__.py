"""Schedules of statements for CPUs: candidates, cost model, search, log."""
