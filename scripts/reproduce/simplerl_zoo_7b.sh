#!/usr/bin/env bash
# SimpleRL-Zoo 7b.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" simplerl_zoo_7b simplerl_zoo.7b "" "$@"
