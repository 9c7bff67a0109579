"""Distributions of the package: built reproducibly, tried in fresh environments, with licences."""
