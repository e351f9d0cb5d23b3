#!/usr/bin/env bash
# What is handed out, as a stranger gets it: the pinned packages by their hashes in an empty environment, wheel and sdist built and
# installed there, the runner used outside of the checkout, licences, and known vulnerabilities. `scripts/reliability/package.sh [FOLDER]`,
# by default build/package; about 1.5 GB and a few minutes. PYTHON: which python. Ends with 1 at the first thing that is wrong; pip-audit
# alone only reports, since its services may not answer.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD folder=$(realpath -m "${1:-build/package}") python=${PYTHON:-python3}
unset PYTHONPATH
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} TOKENIZERS_PARALLELISM=false PIP_DISABLE_PIP_VERSION_CHECK=1
rm -rf "$folder"
mkdir -p "$folder/dist" "$folder/outside"

echo "== 1. packages by their hashes, in an empty environment"
"$python" -m venv "$folder/env"
env=$folder/env/bin
# without a GPU: the CPU build of torch, and nothing that its CUDA build brings
awk '/^[a-z0-9]/ { keep = !/^(nvidia-|cuda-|triton=)/; sub(/^torch==[0-9.]+/, "&+cpu") } keep' constraints-hashed.txt > "$folder/cpu.txt"
"$env/pip" install --quiet --require-hashes -r "$folder/cpu.txt"
# the control: with another hash for one of them pip must refuse
awk '/^[a-z0-9]/ { keep = /^filelock==/ } keep { gsub(/sha256:......../, "sha256:00000000"); print }' "$folder/cpu.txt" > "$folder/wrong.txt"
if "$env/pip" download --quiet --no-deps --require-hashes -r "$folder/wrong.txt" -d "$folder/none" 2> "$folder/wrong.log"; then
    echo "a package with another hash was taken" >&2
    exit 1
fi
grep -q "DO NOT MATCH THE HASHES" "$folder/wrong.log"
echo "$("$env/pip" list --format=freeze | wc -l) packages; one with another hash is refused"

echo "== 2. sdist and wheel, and the wheel of the unpacked sdist"
"$env/python" -m hatchling build -d "$folder/dist" > /dev/null 2>&1
tar -xzf "$folder"/dist/*.tar.gz -C "$folder"
(cd "$folder"/grpo_runner-*/ && "$env/python" -m hatchling build -t wheel -d "$folder/again" > /dev/null 2>&1)
listing() { "$env/python" -m zipfile -l "$1" | awk '{ print $1 }' | sort; }
diff <(listing "$folder"/dist/*.whl) <(listing "$folder"/again/*.whl)
echo "$(listing "$folder"/dist/*.whl | grep -c '^grpo_runner/conf/.*\.yaml$') files of conf/ in the wheel, which the sdist gives too"

smoke() { # from a folder outside of the checkout, by the installed program
    cd "$folder/outside"
    "$env/python" -c "import grpo_runner, grpo_runner.config as c; print(grpo_runner.__file__, c.find())" | tee where.txt
    if grep -q "$root/grpo_runner\|$root/conf" where.txt; then echo "this is the checkout's" >&2 && exit 1; fi
    "$env/grpo-runner" debug=cpu_smoke steps=2 run_name="$1" > "$1.log" 2>&1 || { cat "$1.log" >&2 && exit 1; }
    test -e "outputs/$1/DONE"
    test "$(wc -l < "outputs/$1/metrics.jsonl")" = 2
    "$env/grpo-runner" plan experiment=dr_grpo_oat_zero_7b > plan.log
    "$env/grpo-runner" compare "outputs/$1" --html page.html > compare.log
    "$env/grpo-runner" check --response '\boxed{\frac{2}{4}}' --gold 0.5 > check.log
    cd "$root"
}
for kind in whl tar.gz; do
    echo "== 3. installed from the $kind, used outside of the checkout"
    "$env/pip" uninstall --quiet --yes grpo-runner 2> /dev/null || true
    "$env/pip" install --quiet --no-deps --no-build-isolation "$folder"/dist/*."$kind"
    "$env/pip" check
    smoke "from_${kind%%.*}"
done

echo "== 4. licences"
"$env/python" scripts/reliability/licences.py docs/licences.md
sed -n '/^\*\*/p' docs/licences.md

echo "== 5. pip-audit"
"$python" -m venv "$folder/tools"
"$folder/tools/bin/pip" install --quiet pip-audit
site=$("$env/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")
code=0
timeout 300 "$folder/tools/bin/pip-audit" --path "$site" --progress-spinner off --format json > "$folder/audit.json" 2> "$folder/audit.log" || code=$?
"$env/python" - "$folder/audit.json" "$code" <<'PYTHON'
import json, sys

try:
    found = json.load(open(sys.argv[1]))["dependencies"]
except ValueError:
    sys.exit(print(f"no result: pip-audit ended with {sys.argv[2]} and no report"))
audited = [one for one in found if "vulns" in one]
for one in audited:
    for known in one["vulns"]:
        print(f"{one['name']} {one['version']}: {known['id']}, mended in {', '.join(known['fix_versions']) or 'no version'}")
print(f"audited: {len(audited)} of {len(found)}; with a known vulnerability: {sum(bool(one['vulns']) for one in audited)}; not found at the service: {len(found) - len(audited)}")
PYTHON
tail -n 3 "$folder/audit.log"
