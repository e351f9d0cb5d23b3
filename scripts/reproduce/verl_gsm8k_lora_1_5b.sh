#!/usr/bin/env bash
# verl's GSM8K run with LoRA (verl docs/algo/baseline.md). Authors: 2 GPUs.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" verl_gsm8k_lora_1_5b verl.gsm8k_lora.1_5b "evaluation=gsm8k_test" "$@"
