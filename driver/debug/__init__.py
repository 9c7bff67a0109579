"""Crashes of passes, and the search for a wrong pass."""
