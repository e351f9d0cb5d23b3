#!/usr/bin/env bash
# DeepScaleR's first stage: AIME 2024 within 8,192 tokens. Then experiment=deepscaler_16k, then deepscaler_24k.sh.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" deepscaler_8k deepscaler.stage_8k.end "evaluation=aime ~evaluation.sets.aime25 evaluation.samples=8 evaluation.temperature=0.6 evaluation.top_p=1.0" "$@"
