#!/usr/bin/env bash
# Gathers the wheels that scripts/gpu.sh installs on a machine with a GPU and no network: 23 MB, for Python 3.12 on Linux
# (x86-64). Versions are those of constraints.txt; ve-fairseq is checked by the hashes of fairseq.txt.
#
#   bash scripts/gpu_wheels.sh wheels
#
# The machine is assumed to have the packages of PRESENT, whose versions do not matter; tests/test_gpu_script.py checks
# that nothing else is needed. numpy 2.5.2 and torch 2.11 are known to go with these wheels.
# Settings (environment variables, with their defaults):
#   PYTHON=python3     a Python with pip
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

WANTED="antlr4-python3-runtime bitarray certifi cffi charset-normalizer entmax hydra-core idna mock omegaconf
  platformdirs pooch pycparser requests sacremoses subword-nmt tensorboardx urllib3"
# shellcheck disable=SC2034 # read by the test
PRESENT="click cython jinja2 joblib numpy packaging portalocker protobuf pytest pytest-timeout pytest-xdist
  pyyaml regex sacrebleu scikit-learn sentencepiece tabulate torch torchaudio tqdm"
MOST=40 # megabytes

die() { echo "gpu_wheels: $*" >&2; exit 1; }
[[ $# == 1 && $1 != -* ]] || die "${*:-no folder}: name one folder for the wheels, as in bash scripts/gpu_wheels.sh wheels"
DIR=$1
[[ $DIR == /* ]] || DIR=$OLDPWD/$DIR # of the folder of the call
[[ ! -e $DIR || -z $(ls -A "$DIR" 2>&1) ]] || die "$DIR: exists and is no empty folder; name another one, or remove it"
mkdir -p "$DIR"

pip() { "${PYTHON:-python3}" -m pip --quiet --disable-pip-version-check "$@"; }
download() {
  local number platforms=(--platform manylinux2014_x86_64)
  for number in 17 27 28; do platforms+=(--platform "manylinux_2_${number}_x86_64"); done
  pip download --no-deps --only-binary=:all: --python-version 3.12 --implementation cp "${platforms[@]}" -d "$DIR" "$@"
}

# Markers are for the Python that runs pip, and this one may be another: the lines for Linux and 3.12 go without.
PINS=$(mktemp -d)
trap 'rm -rf "$PINS"' EXIT
sed -n '/^ve-fairseq==/,/[^\\]$/p' fairseq.txt | sed 's/;.*\\$/ \\/' >"$PINS/fairseq.txt"
sed -n "/python_version >= '3.13'/d; s/;.*//; p" constraints.txt >"$PINS/constraints.txt"

download --require-hashes -r "$PINS/fairseq.txt" || die "ve-fairseq cannot be had"
for name in $WANTED; do
  if [[ $name == antlr4-python3-runtime ]]; then # has no wheel of its own
    pip wheel --no-deps -c "$PINS/constraints.txt" -w "$DIR" "$name" || die "$name cannot be built"
  else
    download -c "$PINS/constraints.txt" "$name" || die "$name cannot be had"
  fi
done
SIZE=$(du -sm "$DIR" | cut -f 1)
((SIZE <= MOST)) || die "$DIR: has $SIZE MB, at most $MOST are to travel"
echo "gpu_wheels: $(find "$DIR" -name '*.whl' | wc -l) wheels, $SIZE MB, in $DIR: WHEELS=$DIR bash scripts/gpu.sh"
