#!/usr/bin/env bash
# SimpleRL-Zoo on Qwen2.5-1.5B: its six sets, one sample at temperature 1, top-p 0.95.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" simplerl_zoo_1_5b simplerl_zoo.readme.qwen2_5_1_5b "evaluation=simplerl_zoo" "$@"
