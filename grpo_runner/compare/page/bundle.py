"""Vega, Vega-Lite and vega-embed as one script, to stand in the page."""

from __future__ import annotations

import os
from functools import cache
from importlib.metadata import version
from pathlib import Path

from ...errors import MachineError
from ...files import write_atomic


@cache
def bundle() -> str:
    """The script (0.9 MB), safe within a script element. It defines window.vegaEmbed.

    vl-convert takes 1.5 s to put it together, so it is kept in the user's cache folder by vl-convert's version. That a
    cache cannot be read or written is no fault.
    """
    import vl_convert

    kept = _cache() / f"vega-{version('vl-convert-python')}.js"
    try:
        text = kept.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = ""
    if "window.vegaEmbed=" not in text:
        text = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # its stub wants the snippet, it does not
        _keep(kept, text)
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "grpo_runner"


def _keep(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, text.encode("utf-8"))
    except (OSError, MachineError):
        return
