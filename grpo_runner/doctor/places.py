"""Where runs are written: disk, folders, the clock of both; and which keys are there, never what they are."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from ..tracking.wandb_tracker import logged_in
from .lines import FAILURE, OK, WARNING, Line

GIB = 2**30
# A run of the embedded model leaves some MiB; a checkpoint of a 7B model's adapter with its moments has about 1 GiB
LITTLE, ENOUGH = GIB // 4, 5 * GIB
_SKEW_S = 5.0
_DAY_S = 86_400.0


def nearest_folder(folder: Path) -> Path:
    """The folder, or the nearest above it that exists."""
    whole = folder.absolute()
    return next(path for path in (whole, *whole.parents) if path.is_dir())


def disk(folder: Path, home: Path) -> Line:
    """Space where runs are written. folder: as asked for; home: the part of it that exists."""
    return space(folder, shutil.disk_usage(home).free)


def space(folder: Path, free: int) -> Line:
    """free: bytes."""
    found = f"{free / GIB:.1f} GiB free for {folder}"
    do = "make room (python -m grpo_runner sweep clean NAME), or another disk: hydra.run.dir=FOLDER; checkpoint.keep=1"
    if free < LITTLE:
        return Line("disk", FAILURE, f"{found}: a run would stop for want of space", do)
    return Line("disk", OK, found) if free >= ENOUGH else Line("disk", WARNING, found, do)


def writable(home: Path) -> Line:
    """Whether a file can be made where runs, temporary files and models from the hub are kept."""
    needed = {"runs": home, "temporary files": Path(tempfile.gettempdir())}
    models = nearest_folder(hub_folder(os.environ))
    refused = {what: (folder, why) for what, folder in needed.items() if (why := _refusal(folder))}
    if refused:
        said = "; ".join(f"{what} cannot be written in {folder} ({why})" for what, (folder, why) in refused.items())
        return Line("folders", FAILURE, said, "another one: hydra.run.dir=FOLDER for runs, TMPDIR for temporary files")
    if why := _refusal(models):
        said = f"models of the hub cannot be kept in {models} ({why})"
        return Line(
            "folders", WARNING, said, "export HF_HOME=FOLDER, or a model that lies on the disk: model.path=FOLDER"
        )
    return Line("folders", OK, f"can be written: {home}, {needed['temporary files']}, {models}")


def hub_folder(environ: Mapping[str, str]) -> Path:
    """Where huggingface_hub keeps what it has fetched."""
    cache = environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = environ.get("HF_HOME") or f"{cache}/huggingface"
    return Path(environ.get("HF_HUB_CACHE") or f"{home}/hub").expanduser()


def keys(environ: Mapping[str, str]) -> Line:
    """Whether there are keys for W&B and the hub. Their values go nowhere, not even their lengths."""
    tracking = "W&B: key present" if logged_in(environ) else "W&B: no key (runs are recorded offline)"
    hub = "hub: token present" if _token(environ) else "hub: no token (public models need none)"
    spoilt = [name for name in ("WANDB_API_KEY", "HF_TOKEN") if _spoilt(environ.get(name))]
    if spoilt:
        do = f"export {spoilt[0]} again, without blanks, line breaks or quotes"
        return Line("keys", WARNING, f"{tracking}; {hub}. Not as a key is written: {', '.join(spoilt)}", do)
    return Line("keys", OK, f"{tracking}; {hub}")


def _token(environ: Mapping[str, str]) -> bool:
    if environ.get("HF_TOKEN") or environ.get("HUGGING_FACE_HUB_TOKEN"):
        return True
    file = Path(environ.get("HF_TOKEN_PATH") or hub_folder({**environ, "HF_HUB_CACHE": ""}).parent / "token")
    return file.is_file() and file.stat().st_size > 0


def _spoilt(key: str | None) -> bool:
    """Set, but empty or with something around it."""
    return key is not None and (not key or any(letter.isspace() or letter in "'\"" for letter in key))


def clock(home: Path) -> Line:
    """This machine's clock against the date of the installed code, and against the clock of the disk for runs."""
    with tempfile.NamedTemporaryFile(dir=home, prefix=".doctor_") as file:
        file.write(b"now")
        file.flush()
        dated, now = os.stat(file.name).st_mtime, time.time()
    return times(now, dated, Path(__file__).stat().st_mtime, home)


def times(now: float, dated: float, installed: float, home: Path) -> Line:
    """Seconds since 1970: this machine's clock, the date of a file just made in `home`, the date of this code."""
    said = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M} UTC"
    if now < installed - _DAY_S:
        do = "set it (timedatectl, or the host's clock): certificates look invalid, and W&B and the hub are refused"
        return Line("clock", FAILURE, f"{said}, which is before this code was installed", do)
    if abs(dated - now) > _SKEW_S:
        found = f"{said}; a file made now in {home} is dated {dated - now:+.0f} s from it"
        return Line("clock", WARNING, found, "set both clocks by one time server: ages of runs and locks are read off")
    return Line("clock", OK, said)


def _refusal(folder: Path) -> str:
    """Why no file can be made in a folder; "" where it can."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor_"):
            return ""
    except OSError as error:
        return error.strerror or type(error).__name__
