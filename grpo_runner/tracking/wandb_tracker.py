"""Weights & Biases: metrics, evaluations, the whole history of question weights, the charts. Never stops a run."""

from __future__ import annotations

import io
import netrc
import os
import secrets
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal
from urllib.parse import ParseResult, urlparse
from urllib.request import getproxies

from ..files import write_atomic
from ..schema import RunConfig
from . import jsonl
from .base import Row, Tracker
from .local import EVALS, METRICS, PICTURES, picture, rows_of_pictures
from .questions import COLUMNS, read_questions

_ID = "run_id"  # wandb/run_id: the folder's own W&B id, so that a resume, also after a move, continues the same run
_FIRST_TABLE = 512  # rows at which the table is first logged; then at each doubling, and at the end
_TABLE_ROWS = 200_000  # W&B silently cuts longer tables; the rest goes into questions_2, questions_3, …
_PROBE_SECONDS = 5.0
_INIT_SECONDS = 30.0
_TYPES: list[Any] = [{"int64": int, "float64": float, "string": str}[kind] for kind, _ in COLUMNS.values()]


def logged_in(environ: Mapping[str, str]) -> bool:
    """Whether W&B has a key: WANDB_API_KEY, or an entry for its host in the netrc file. The key is not kept."""
    if environ.get("WANDB_API_KEY"):
        return True
    host = _server(environ).hostname or ""
    try:
        return netrc.netrc(environ.get("NETRC")).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def mode_of(setting: str, environ: Mapping[str, str]) -> Literal["online", "offline", "disabled"]:
    """online, offline or disabled. `auto` follows WANDB_MODE when it is set, else it is online with a key only."""
    if setting == "auto":
        setting = environ.get("WANDB_MODE") or "online"
    if setting == "disabled":
        return "disabled"
    # without a key W&B would ask for one and wait
    return "online" if setting == "online" and logged_in(environ) else "offline"


def reachable(environ: Mapping[str, str]) -> bool:
    """Whether W&B's server takes a connection; behind a proxy only W&B itself can tell, so True."""
    if getproxies():
        return True
    server = _server(environ)
    try:
        port = server.port or (80 if server.scheme == "http" else 443)
        socket.create_connection((server.hostname, port), timeout=_PROBE_SECONDS).close()
        return True
    except (OSError, ValueError):
        return False


def _server(environ: Mapping[str, str]) -> ParseResult:
    return urlparse(environ.get("WANDB_BASE_URL") or "https://api.wandb.ai")


def method_tags(config: RunConfig) -> list[str]:
    """The switches that make the method, so that the runs of a sweep can be filtered by them."""
    advantage = config.advantage
    return [
        f"baseline={advantage.baseline}",
        f"scale={advantage.scale}",
        f"loss_norm={config.loss_norm.kind}",
        f"beta={config.beta.value:g}",
        f"clip={config.clip.kind}",
        f"truncated={config.reward.truncated}",
        *(["dynamic_sampling"] if config.rollout.dynamic_sampling else []),
        *(["kl_in_reward"] if config.beta.value > 0 and config.beta.placement == "reward" else []),
        *([f"importance={config.rollout.importance}"] if config.rollout.importance != "none" else []),
    ]


class WandbTracker(Tracker):
    """One W&B run a run folder, under its `wandb/`. Needs a LocalTracker before it: it reads the folder's files.

    Step numbers are the x-axis. The table `questions` is logged whole, from questions.parquet and its journal, each
    time its length has doubled and at the end, so that its last value holds every step, resumed or not, at a cost of
    O(rows). (W&B's own incremental tables show 100 increments only, and lose the earlier ones when an offline run is
    resumed.) What W&B does not have yet (an offline run that is resumed starts a new file) is logged again from
    metrics.jsonl and evals.jsonl. A failure is told by one call of `say`, and W&B is left out from then on.
    """

    def __init__(self, say: Callable[[str], None] = print) -> None:
        self._say = say
        self._run: Any = None

    def start(self, config: RunConfig, resumed_at: int | None) -> None:
        mode = mode_of(config.tracking.wandb, os.environ)
        if mode == "disabled":
            return
        if mode == "offline" and config.tracking.wandb == "online":
            self._say("W&B has no key (WANDB_API_KEY, or `wandb login`): this run is recorded offline.")
        if mode == "online" and not reachable(os.environ):
            self._say("W&B's server cannot be reached: this run is recorded offline.")
            mode = "offline"
        self._config, self._dir = config, Path(config.run_dir)
        self._last = self._logged_rows = 0
        with self._guarded("start"):
            older = [*self._home.glob("offline-run-*"), *self._staging.glob("*")]
            try:
                self._run = self._open(mode)
            except Exception as error:
                if mode == "offline":
                    raise
                self._say(f"W&B refuses to start online ({_line(error)}): this run is recorded offline.")
                self._free_run_id()
                self._run = self._open(mode := "offline")
            self._catch_up()
            if mode == "offline":  # the new file holds all that these held
                for folder in older:
                    if folder != Path(self._run.dir).parent:  # named by the second: a quick resume may have the same
                        shutil.rmtree(folder, ignore_errors=True)

    def step(self, step: int, metrics: Row) -> None:
        self._log(step, metrics, "")

    def evaluation(self, step: int, metrics: Row) -> None:
        self._log(step, metrics, "eval/")

    def questions(self, step: int, rows: Sequence[Row]) -> None:
        if self._run is None:
            return
        self._last = max(self._last, step)
        self._rows += len(rows)
        if self._rows >= max(_FIRST_TABLE, 2 * self._logged_rows):
            with self._guarded("log the table of questions"):
                self._log_table(from_file=False)

    def alert(self, step: int, rule: str, text: str) -> None:
        # as with rows: W&B has those before its own last step, and an offline file that is made again lacks all
        if self._run is None or step < self._first:
            return
        with self._guarded("send an alert"):
            self._run.alert(title=f"{rule} at step {step}", text=f"{self._config.run_name}: {text}", level="WARN")

    def finish(self, summary: Row) -> None:
        if self._run is None:
            return
        with self._guarded("finish"):
            self._log_table(from_file=True)
            self._run.summary.update(
                {
                    key: value
                    for key, value in summary.items()
                    if isinstance(value, str | int | float) and key != "run_dir"
                }
            )
        if self._run is not None:
            with self._guarded("finish"):
                run, self._run = self._run, None
                run.finish(exit_code=1 if summary.get("status") == "failed" else 0)

    @property
    def _home(self) -> Path:
        return self._dir / "wandb"

    @property
    def _staging(self) -> Path:
        return self._home / "data" / "artifacts" / "staging"

    def _open(self, mode: Literal["online", "offline"]) -> Any:
        os.environ.setdefault("WANDB_SILENT", "true")
        import wandb

        self._home.mkdir(parents=True, exist_ok=True)
        marker = self._home / _ID
        if not marker.exists():
            # a sweep of W&B's own waits for the run under the name that its agent gave it
            given = os.environ.get("WANDB_RUN_ID") if os.environ.get("WANDB_SWEEP_ID") else None
            write_atomic(marker, (given or secrets.token_hex(6)).encode())
        config = asdict(self._config)
        config.pop("run_dir")  # a place on this machine, and a difference between runs that means nothing
        tracking = self._config.tracking
        # no host name, program path or git remote; nothing on the terminal
        settings = wandb.Settings(
            silent=True, quiet=True, console="off", init_timeout=_INIT_SECONDS, disable_git=True, disable_code=True,
            save_code=False, x_disable_meta=True, host="",
        )  # fmt: skip
        return wandb.init(
            project=tracking.project,
            entity=tracking.entity,
            group=tracking.group or self._config.sweep_name,
            tags=[*tracking.tags, *method_tags(self._config)],
            name=self._config.run_name,
            id=marker.read_text().strip(),
            dir=self._dir,
            config=config,
            mode=mode,
            # offline there is nothing to resume: the file is made whole, and replaces older ones when it is synced
            resume="allow" if mode == "online" else None,
            # its own run beside any other in this process: the next of a sweep, or one of a notebook's
            reinit="create_new",
            settings=settings,
        )

    @staticmethod
    def _free_run_id() -> None:
        """A failed start keeps the id in use until W&B's service ends; it may end where nobody else has a run in it."""
        import wandb

        if wandb.run is None:
            wandb.teardown()

    def _catch_up(self) -> None:
        """Logs the rows of an earlier part of this run that W&B lacks, and the table as it stands."""
        self._first = self._run.step  # 0, or the step after the last one that the server has
        self._rows = 0
        rows = [(row["step"], prefix, row)
                for name, prefix in ((EVALS, "eval/"), (METRICS, ""))
                for _, row in jsonl.whole_lines(self._dir / name)]  # fmt: skip
        for step, prefix, row in sorted(rows, key=lambda item: item[0]):
            self._log(step, row, prefix)
        if rows:
            self._log_table(from_file=False)

    def _log(self, step: int, metrics: Row, prefix: str) -> None:
        # W&B refuses rows before its own last step; it has the same ones already
        if self._run is None or step < self._first:
            return
        self._last = max(self._last, step)
        values = {prefix + key: value for key, value in metrics.items() if value is not None and key != "step"}
        with self._guarded(f"log step {step}"):
            self._run.log(values, step=step)

    def _log_table(self, from_file: bool) -> None:
        table = read_questions(self._dir)
        if not table.num_rows:
            return
        import wandb
        from PIL import Image

        from . import charts

        self._rows = self._logged_rows = table.num_rows
        if from_file:  # just drawn by the local tracker
            pngs = {name: path.read_bytes() for name in PICTURES if (path := self._dir / picture(name)).exists()}
        else:
            drawn = charts.draw(self._config, table, **rows_of_pictures(self._dir))
            pngs = {name: made.png for name, made in drawn.items()}
        values: dict[str, object] = {name: wandb.Image(Image.open(io.BytesIO(data))) for name, data in pngs.items()}
        for i in range(0, table.num_rows, _TABLE_ROWS):
            part = table.slice(i, _TABLE_ROWS)
            shown = wandb.Table(columns=list(COLUMNS), dtype=_TYPES, optional=True)
            # the rows have their types; add_data would check each again, at 0.2 ms a row
            shown.data = [list(row) for row in zip(*(part[name].to_pylist() for name in COLUMNS), strict=True)]
            values["questions" if i == 0 else f"questions_{i // _TABLE_ROWS + 1}"] = shown
        with self._files_in_run_dir():
            self._run.log(values, step=max(self._last, self._first))

    @contextmanager
    def _files_in_run_dir(self) -> Iterator[None]:
        """W&B stages tables under the user's home unless WANDB_DATA_DIR says otherwise; they belong to the run."""
        before = os.environ.get("WANDB_DATA_DIR")
        os.environ["WANDB_DATA_DIR"] = before or str(self._home / "data")
        try:
            yield
        finally:
            if before is None:
                del os.environ["WANDB_DATA_DIR"]

    @contextmanager
    def _guarded(self, doing: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._run = None
            self._say(f"W&B could not {doing} ({_line(error)}): the run goes on without it.")


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
