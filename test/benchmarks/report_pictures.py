"""Pictures of the page of ``vta-report`` for docs/report.md and the README.

``python test/benchmarks/report_pictures.py docs/pictures`` compiles ResNet-18 and two layers of an
encoder, writes their pages to ``build``, and shows parts of them in a headless Chromium.
"""

import argparse
import sys
import tempfile
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "test" / "support"))

import browser  # noqa: E402
import encoder  # noqa: E402
import resnet18  # noqa: E402

import vtac  # noqa: E402

LEVELS = ("imported", "canonical", "calibrated", "quantised", "graph", "te", "loops", "vta")
LIMIT = 300_000
"""The most bytes of a picture."""

PICTURES = {
    "report_network.png": ("resnet18", "light", (1240, 760), ""),
    "report_node.png": (
        "resnet18",
        "dark",
        (1240, 900),
        "document.querySelector('#n4 .node').click();"
        "[...document.querySelectorAll('#panel summary')].at(-3).click();"
        "document.getElementById('panel').scrollTop = 390;",
    ),
    "report_timeline.png": (
        "encoder",
        "light",
        (1240, 900),
        "document.getElementById('time').scrollIntoView();",
    ),
}
"""For each picture the network, the colours, the size of the window, and what is done before."""


def page_of(name: str) -> str:
    """The page of a network."""
    if name == "resnet18":
        model, samples = resnet18.build(), resnet18.images(2)
    else:
        model, samples = encoder.build(), encoder.samples(4)
    options = {"keep_ir": LEVELS, "layer_errors": True}
    return vtac.report_html(vtac.compile(model, "pynq", samples, **options), title=name)


def main() -> None:
    """Write the pictures to the folder named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "docs" / "pictures")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    for name in dict.fromkeys(network for network, *_ in PICTURES.values()):
        (build / f"{name}.html").write_text(page_of(name), "utf-8")
        print(build / f"{name}.html", (build / f"{name}.html").stat().st_size)
    with tempfile.TemporaryDirectory() as folder:
        driver = browser.opened(Path(folder))
        for file, (network, scheme, size, script) in PICTURES.items():
            browser.resize(driver, *size)
            browser.in_colours(driver, scheme)
            driver.get((build / f"{network}.html").as_uri())
            browser.wait(driver, lambda: browser.find(driver, "#roofs svg"))
            driver.execute_script(script)
            driver.execute_async_script(
                "requestAnimationFrame(() => setTimeout(arguments[0], 300))"
            )
            driver.save_screenshot(str(options.folder / file))
            print(options.folder / file, (options.folder / file).stat().st_size)
            assert (options.folder / file).stat().st_size < LIMIT
        driver.quit()


if __name__ == "__main__":
    main()
