"""Specialisation: the sizes and values that a program is compiled for."""
