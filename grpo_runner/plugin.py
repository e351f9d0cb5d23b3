"""A user's own functions, named in the configuration by import path. No torch."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from .errors import InputError, in_a_line, nearest


def imported(path: str, key: str) -> Callable[..., Any]:
    """The function that `package.module:name` stands for. Raises InputError, naming `key`, where there is none."""
    module_name, colon, name = path.partition(":")
    if not (colon and module_name and name):
        raise InputError(f'{key}: "{path}" is no import path. Write it as package.module:name.')
    # The console script's import path lacks the working folder, where a user's own file usually lies
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise InputError(f"{key}: cannot import {module_name}: {in_a_line(error)}") from error
    found = getattr(module, name, None)
    if found is None:
        raise InputError(f'{key}: {module_name} has no "{name}".{nearest(name, dir(module))}')
    if not callable(found):
        raise InputError(f"{key}: {path} is {type(found).__name__}, not a function.")
    return found
