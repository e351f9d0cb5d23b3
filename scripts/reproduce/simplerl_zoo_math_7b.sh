#!/usr/bin/env bash
# SimpleRL-Zoo on Qwen2.5-Math-7B: its six sets, one sample at temperature 1, top-p 0.95, within the model's 4,096 tokens.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" simplerl_zoo_math_7b simplerl_zoo.readme.qwen2_5_math_7b "evaluation=simplerl_zoo evaluation.max_new_tokens=3072" "$@"
