"""Stages of the IR by name, as text and as files."""
