#!/usr/bin/env bash
# Tinker's math_rl on GSM8K with Llama-3.1-8B-Instruct, greedy.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" tinker_math_rl_8b_gsm8k tinker.gsm8k.llama_3_1_8b_instruct "evaluation=gsm8k_test" "$@"
