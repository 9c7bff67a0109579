"""Tools for a release: reproducible builds, tests in fresh environments, licences, and the SBOM."""
