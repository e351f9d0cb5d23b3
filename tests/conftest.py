"""What every test has: one thread (tests run side by side on small machines), no network, and nothing done twice that
is not what the test is about: pictures are not laid out, a composition is remembered.
"""

from __future__ import annotations

import copy
import gc
import os
from collections import OrderedDict

import pytest

from tests import pictures

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["WANDB_MODE"] = "offline"
os.environ.pop("WANDB_API_KEY", None)


# by CPU time, the longest first (docs/LOG.md); the others follow as they were collected
LONG = (
    "resume",
    "bad_input",
    "processes",
    "cli",
    "run",
    "sweep_runs",
    "proof_identity",
    "experiments",
    "proof_invariance",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long begin first, so that no worker is left alone with one at the end."""
    places = {f"test_{name}": place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


def pytest_collection_finish() -> None:
    """What all the imports have left is never looked through again: a collection takes 0.01 s in place of 0.3 s."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def plain_pictures():
    """The pictures of a run are one dot each, see tests/pictures.py."""
    with pytest.MonkeyPatch.context() as patch:
        pictures.plain(patch)
        yield


@pytest.fixture(scope="module")
def real_pictures(plain_pictures):
    """The pictures of a run are drawn, for tests of what is on them."""
    with pytest.MonkeyPatch.context() as patch:
        pictures.real(patch)
        yield


def pytest_sessionstart(session: pytest.Session) -> None:
    """Before the first import of a test file: some compose what they need there."""
    options = session.config.option
    if hasattr(session.config, "workerinput") or not getattr(options, "numprocesses", None):
        remember_configs(patch := pytest.MonkeyPatch())
        session.config.add_cleanup(patch.undo)


def remember_configs(patch: pytest.MonkeyPatch) -> None:
    """What Hydra makes of conf/ is a function of the overrides: of a file that was read and of a composition that was
    made in this process, the next one to ask gets a copy.

    conf/ and Hydra's own configs alone: folders that tests write themselves are read each time, and what fails fails
    each time anew.
    """
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra._internal.sources_registry import SourcesRegistry
    from hydra.core.plugins import Plugins
    from hydra.core.utils import JobRuntime
    from omegaconf import open_dict

    from grpo_runner.config import find

    Plugins.instance()  # registers the sources
    conf, fixed = str(find()), {"pkg://hydra.conf", "structured://", str(find())}
    compose = ConfigLoaderImpl._load_configuration_impl
    compositions, files = Remembered(400), Remembered(1000)

    def composed(self, config_name, overrides, run_mode, from_shell=True, validate_sweep_overrides=True):
        def make():
            return compose(self, config_name, overrides, run_mode, from_shell, validate_sweep_overrides)

        paths = [path.path for path in self.config_search_path.get_path()]
        if not fixed.issuperset(paths) or any("searchpath" in text for text in overrides):
            return make()
        name = JobRuntime.instance().get("name")
        key = (config_name, *overrides, run_mode, from_shell, validate_sweep_overrides, name)
        made = compositions.get(key, make)
        with open_dict(made):
            made.hydra.runtime.cwd = os.getcwd()
        return made

    patch.setattr(ConfigLoaderImpl, "_load_configuration_impl", composed)
    for kind in (SourcesRegistry.instance().resolve(scheme) for scheme in ("file", "pkg")):
        read = kind.load_config

        def loaded(self, config_path, read=read):
            if self.path not in (conf, "hydra.conf"):
                return read(self, config_path)
            return files.get((self.path, config_path), lambda: read(self, config_path))

        patch.setattr(kind, "load_config", loaded)


class Remembered:
    """The last so many results of a function, as copies that a caller may change."""

    def __init__(self, most: int) -> None:
        self.most, self.made = most, OrderedDict()

    def get(self, key, make):
        if key not in self.made:
            self.made[key] = copy.deepcopy(made := make())
            if len(self.made) > self.most:
                self.made.popitem(last=False)
            return made
        self.made.move_to_end(key)
        return copy.deepcopy(self.made[key])
