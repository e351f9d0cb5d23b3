#!/usr/bin/env bash
# SimpleRL-Zoo 0_5b.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" simplerl_zoo_0_5b simplerl_zoo.0_5b "" "$@"
