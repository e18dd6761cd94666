"""The versions of vtac and of what it stands on."""

import json
import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version

_PACKAGE = "vtac"
_NAME = re.compile(r"[\w.-]+")


def versions() -> dict[str, str]:
    """Versions by name: vtac, Python, the platform, and each library that vtac always needs."""
    found = {_PACKAGE: _version(_PACKAGE), "Python": platform.python_version()}
    found["platform"] = f"{platform.system()} {platform.machine()}"
    for requirement in sorted(requires(_PACKAGE) or ()):
        if (name := _NAME.match(requirement)) and "extra ==" not in requirement:
            found[name[0]] = _version(name[0])
    return found


def versions_text(*, as_json: bool) -> str:
    """The versions as they are printed: a line for each, or a JSON object."""
    found = versions()
    if as_json:
        return json.dumps(found, indent=2)
    return "\n".join(f"{name} {number}" for name, number in found.items())


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
