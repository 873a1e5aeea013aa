#!/usr/bin/env bash
# Makes one virtual environment for each peer: joeynmt 2.3.0 and OpenNMT-py 3.5.1, beside the torch of this project.
#
#   bash benchmarks/peers/setup.sh                     below benchmarks/peers/.envs, about 1 GB each
#   PEERS_ENVS=/somewhere bash benchmarks/peers/setup.sh
#   PYTHON=python3.11 TORCH=torch==2.13.0 bash benchmarks/peers/setup.sh
#
# Both are installed without their own requirements, for two reasons. OpenNMT-py asks for torch < 2.3, but its recurrent
# models train and translate unchanged with the torch of this project, so that all systems have the same kernels.
# joeynmt asks for an old protobuf and for tools of development. A second call returns at once.
set -euo pipefail
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
ENVS="${PEERS_ENVS:-$HERE/.envs}"
PYTHON="${PYTHON:-python3.11}"
TORCH="${TORCH:-torch==2.13.0}"

say() { printf 'setup: %s\n' "$*" >&2; }

if ! command -v "$PYTHON" >/dev/null || ! "$PYTHON" -c '' 2>/dev/null; then
    say "PYTHON=$PYTHON does not run; set PYTHON to a Python 3.9 to 3.11"
    exit 1
fi

# environment NAME PACKAGE CHECK DEPENDENCIES...
environment() {
    local folder="$ENVS/$1" package="$2" check="$3"
    if [[ -f "$folder/.stamp" && "$(cat "$folder/.stamp")" == "$package $TORCH" ]]; then
        say "$folder is up to date"
        return
    fi
    say "making $folder: $TORCH, $package"
    "$PYTHON" -m venv "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$TORCH" numpy "setuptools<81" "${@:4}"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "$package"
    "$folder/bin/python" -W ignore -c "$check"
    printf '%s\n' "$package $TORCH" >"$folder/.stamp"
}

environment joeynmt joeynmt==2.3.0 "import joeynmt.training" \
    datasets importlib_metadata matplotlib packaging pandas pyyaml sacrebleu sacremoses sentencepiece \
    subword-nmt tensorboard tqdm
environment opennmt OpenNMT-py==3.5.1 "import onmt.bin.train, onmt.bin.translate" \
    configargparse "ctranslate2>=4,<5" fasttext-wheel flask pyahocorasick "pyonmttok>=1.37,<2" pyyaml rapidfuzz \
    sacrebleu six spacy tensorboard waitress
say "done: $ENVS"
