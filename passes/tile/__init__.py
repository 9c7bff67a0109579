"""Schedules of statements for CPUs: what can be run, the model that chooses, what it says."""
