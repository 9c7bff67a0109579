"""Errors, knobs and text: what every other folder may use. Imports nothing of ours."""
