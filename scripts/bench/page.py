"""How large the page of `compare` is, and how soon it is there in a browser: a made sweep of 24 runs of 500 steps.

    PYTHONPATH=. python scripts/bench/page.py [--repeats 9] [--steps 500] [--seeds 12]

Headless Chromium (found on the PATH) opens the file `--repeats` times, each in a profile of its own, as wide as a
laptop. Times are the browser's own clock, from the start of the navigation to
    loaded       the end of the load event: verdict and tables are there, and the reader can scroll and sort
    first drawn  the first figure
    all drawn    every figure, those further down too, which the page draws when there is time
and are told as the median and the range. `command s`: the whole process of `compare --html`, once.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

LARGEST, SLOWEST = 5_000_000, 2.0  # bytes, seconds until it is loaded
TIMES = ("loaded", "first drawn", "all drawn")
_WATCH = """
const drawn = new MutationObserver(() => {
  if (!window.firstDrawn && document.querySelector('.plot.drawn')) window.firstDrawn = performance.now();
  if (!window.allDrawn && document.documentElement.dataset.drawn) window.allDrawn = performance.now();
});
drawn.observe(document, {subtree: true, childList: true, attributes: true});
"""
_SAID = "[performance.getEntriesByType('navigation')[0].loadEventEnd, window.firstDrawn, window.allDrawn]"


def browser() -> str:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        raise SystemExit("No Chromium on the PATH.")
    return found


def opened(page: Path, repeats: int) -> list[list[float]]:
    """A row a visit: seconds until each of TIMES."""
    from playwright.sync_api import sync_playwright

    rows = []
    with sync_playwright() as playwright:
        for _ in range(repeats):
            chromium = playwright.chromium.launch(executable_path=browser(), args=["--no-sandbox"])
            tab = chromium.new_page(viewport={"width": 1280, "height": 800})
            tab.add_init_script(_WATCH)
            tab.goto(page.as_uri())
            tab.wait_for_function("window.allDrawn")
            rows.append([at / 1000 for at in tab.evaluate(_SAID)])
            chromium.close()
    return rows


def make(folder: Path, steps: int, seeds: int) -> tuple[Path, float]:
    """The page of a made sweep, and how long `compare` took."""
    here = Path(__file__).resolve().parents[2]
    environment = os.environ | {"PYTHONPATH": str(here)}
    made = [sys.executable, str(here / "scripts/make_sweep.py"), "sweep", "--steps", str(steps), "--seeds", str(seeds)]
    subprocess.run(made, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    begun = time.perf_counter()
    words = [sys.executable, "-m", "grpo_runner", "compare", "sweep", "--html", "page.html"]
    subprocess.run(words, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    return folder / "page.html", time.perf_counter() - begun


def main(words: Sequence[str] | None = None) -> int:
    """Prints the figures; 1 where the page is larger or slower than it may be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=12)
    flags = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        page, took = make(Path(folder), flags.steps, flags.seeds)
        size, rows = page.stat().st_size, opened(page, flags.repeats)
    print(f"{2 * flags.seeds} runs of {flags.steps} steps, {flags.repeats} visits")
    print(f"{'size':<12}{size / 1e6:.2f} MB (at most {LARGEST / 1e6:g})")
    print(f"{'command s':<12}{took:.1f}")
    for name, column in zip(TIMES, zip(*rows, strict=True), strict=True):
        limit = f" (at most {SLOWEST:g})" if name == TIMES[0] else ""
        print(f"{name:<12}{median(column):.2f} s, {min(column):.2f} to {max(column):.2f}{limit}")
    return int(size > LARGEST or median(row[0] for row in rows) > SLOWEST)


if __name__ == "__main__":
    raise SystemExit(main())
