"""Run by a Python with vLLM: one order for vllm_server.Backend in this very process, as rollout.vllm_python=null has it.

PYTHON -P vllm_side.py SERVER_FILE ORDER.json ANSWER.json
"""

import importlib.util
import json
import sys
from pathlib import Path


def main() -> None:
    server, order, answer = map(Path, sys.argv[1:])
    spec = importlib.util.spec_from_file_location("vllm_server", server)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    given = json.loads(order.read_text())
    backend = module.Backend(given["settings"], sleeps=False)
    answer.write_text(json.dumps(backend.generate(given["order"])))
    backend.close()


if __name__ == "__main__":  # vLLM's engine is a process that imports this file again
    main()
