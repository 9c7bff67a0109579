"""Write the bill of materials (SBOM) in CycloneDX format: ``python -m release.sbom FILE``.

It lists the packages that tessella and its extras for users install, in the versions that are
installed here, and the JavaScript in the wheel. All of these extras must be installed.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import tessella
from release.build import epoch
from release.licences import VENDORED, licence
from release.packages import extras, installed, project, requirements

_NAMESPACE = uuid.NAMESPACE_URL
_VERSION = "1.6"
"""The version of the CycloneDX format."""


def bill(packages: dict[str, Distribution], required: frozenset[str], time: int) -> str:
    """Return the bill of materials as JSON. Packages that are not in ``required`` are optional."""
    # The package is not installed wherever this source is type-checked.
    bom: Any = import_module("cyclonedx.model.bom")
    component: Any = import_module("cyclonedx.model.component")
    output: Any = import_module("cyclonedx.output")
    schema: Any = import_module("cyclonedx.schema")
    root = _component("pypi", "tessella", tessella.__version__, project()["license"], True)
    root.type = component.ComponentType.LIBRARY
    parts = [*_components(packages, required)]
    made = bom.Bom(
        components=parts,
        serial_number=uuid.uuid5(_NAMESPACE, " ".join(str(part.purl) for part in [root, *parts])),
        metadata=bom.BomMetaData(component=root, timestamp=datetime.fromtimestamp(time, UTC)),
    )
    made.register_dependency(root, parts)
    form = output.make_outputter(
        made, schema.OutputFormat.JSON, schema.SchemaVersion.from_version(_VERSION)
    )
    return form.output_as_string(indent=1)


def _components(packages: dict[str, Distribution], required: frozenset[str]) -> Iterator[Any]:
    for name, package in sorted(packages.items()):
        yield _component("pypi", name, package.version, licence(package), name in required)
    for name, (version, terms) in VENDORED.items():
        yield _component("npm", name, version, terms, True)


def _component(index: str, name: str, version: str, terms: str, is_required: bool) -> Any:
    """Return the component for a package in an index, such as `pypi`."""
    component: Any = import_module("cyclonedx.model.component")
    factory: Any = import_module("cyclonedx.contrib.license.factories")
    package_url: Any = import_module("packageurl")
    scope = component.ComponentScope
    return component.Component(
        name=name,
        version=version,
        licenses=[factory.LicenseFactory().make_from_string(terms)],
        purl=package_url.PackageURL.from_string(f"pkg:{index}/{name}@{version}"),
        bom_ref=f"{index}/{name}@{version}",
        scope=scope.REQUIRED if is_required else scope.OPTIONAL,
    )


def main(arguments: list[str]) -> int:
    """Write the bill of materials to a file."""
    required = installed(requirements())
    packages = dict(required)
    for extra in extras():
        packages |= installed(requirements(extra))
    text = bill(packages, frozenset(required), epoch())
    Path(arguments[0]).write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
