#!/usr/bin/env bash
# SimpleRL-Zoo on Qwen2.5-7B: its six sets, one sample at temperature 1, top-p 0.95.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" simplerl_zoo_7b simplerl_zoo.readme.qwen2_5_7b "evaluation=simplerl_zoo" "$@"
