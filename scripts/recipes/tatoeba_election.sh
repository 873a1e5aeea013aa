#!/usr/bin/env bash
# Election attention on English-Spanish pairs of Tatoeba (manythings.org/anki, CC BY 2.0): from the raw file to the table.
#
#   bash scripts/recipes/tatoeba_election.sh [STAGE...|all] [--dry-run] [-- fairseq-train options of all systems]
#
# Stages, in this order; all is the default:
#   prepare         the corpus
#   teacher         trains lstm_soft with additive attention, its weights divided by their maximum
#   election        lets the teacher's attention vote on the validation set: rule of the window, sigma, satisfaction
#   agent           trains the Q-learned agent: the table of source words that it names for a target word
#   mask            lstm_gaussian as the teacher left it: the mask of the election, nothing trained any further
#   mask-words      lstm_election likewise: the mask and the agent's words
#   gaussian        lstm_gaussian, from the teacher's parameters, trained further
#   election-model  lstm_election likewise
#   generate        translates with every one of SYSTEMS
#   score           their BLEU, with its signature
#   table           scores and satisfaction beside the document's, into WORK/table.seedSEED.md
#
# Environment variables (default):
#   PAIRS      equal: the pairs with equally many words on both sides; all: every pair (equal)
#   SRC, TGT   en and es, in either order (en, es)
#   OUT        folder for all that is written (out/tatoeba-election of the checkout)
#   DATA       folder with spa.txt (or .gz), instead of a download from manythings.org
#   SEED       (1)
#   BPE        none, subword-nmt or sentencepiece, joint over both languages (none for equal, subword-nmt for all)
#   BPE_SIZE   merges, or pieces of sentencepiece (8000)
#   EPOCHS     of the teacher's training (12)
#   TUNE_EPOCHS   of the further training of gaussian and election-model (6)
#   MAX_NORMALIZE   1: weights are divided by their maximum; 0: by their sum, in all systems (1)
#   ARCH_OPTIONS   options of the model in all systems, such as sizes (none)
#   TEACHER    a checkpoint to take for the teacher's, instead of training one (none)
#   ELECTION_OPTIONS, AGENT_OPTIONS   more options for the election and for the agent's training (none)
#   EMBEDDINGS_SOURCE, EMBEDDINGS_TARGET   files of word vectors of one space, such as MUSE's (made from
#              the training pairs)
#   SYSTEMS    which are trained, translated with and scored ("teacher mask mask-words gaussian election-model")
#   BEAM       (5);  SPLIT  what is translated: test or valid (test)
#   DEVICE     auto, cpu or cuda (auto: CUDA if torch sees a device)
#   JOBS       processes for the preparation (all cores);  GENERATE_OPTIONS  more options for fairseq-generate
#   DRY_RUN    1: print the commands and run none (0)
#   CORPUS_URL a mirror of the zip file
#
# About 90 / 5 / 5 % are made of all pairs from a fixed hash, such that no sentence of either side, up to case and
# punctuation, occurs in two splits: scripts/recipes/split_pairs.py says how. PAIRS=equal then keeps of each split the
# pairs with equally many words between white space, so its test set is part of that of PAIRS=all.
# Text of PAIRS=equal: these words, lower-cased, without the punctuation at their ends, so that the models read as many
# words on the left as they write on the right. Text of PAIRS=all: lower-cased, Moses-tokenised.
# Scores: BLEU of that text as it stands (sacreBLEU, --tokenize none --lowercase); for PAIRS=all also of the detokenised
# text against the original references. The file grows from year to year, and scores are comparable only for the same
# file. Stages that are done are not done again; an interrupted training continues.
set -euo pipefail
RECIPE=tatoeba_election
LANGUAGES="en es"
FILE=spa.txt
AT_HOME="$FILE (or $FILE.gz)"
: "${CORPUS_URL:=https://www.manythings.org/anki}" "${PAIRS:=equal}" "${BPE_SIZE:=8000}"
: "${EPOCHS:=12}" "${TUNE_EPOCHS:=6}" "${MAX_NORMALIZE:=1}" "${BEAM:=5}"
: "${ARCH_OPTIONS:=}" "${ELECTION_OPTIONS:=}" "${AGENT_OPTIONS:=}" "${EMBEDDINGS_SOURCE:=}" "${EMBEDDINGS_TARGET:=}"
EVERY_SYSTEM="teacher mask mask-words gaussian election-model"
: "${SYSTEMS:=$EVERY_SYSTEM}"
# the language that is not given follows from the one that is
if [ -z "${SRC:-}" ]; then SRC=en; if [ "${TGT:-}" = en ]; then SRC=es; fi; fi
if [ -z "${TGT:-}" ]; then TGT=es; if [ "$SRC" != en ]; then TGT=en; fi; fi
if [ -z "${BPE:-}" ]; then BPE=none; if [ "$PAIRS" = all ]; then BPE=subword-nmt; fi; fi

# shellcheck source=scripts/recipes/_common.sh
source "$(dirname "${BASH_SOURCE[0]}")/_common.sh"
STAGES_KNOWN="prepare teacher election agent mask mask-words gaussian election-model generate score table"
CORPUS_TAG=$PAIRS
PREPARE_SETTINGS="pairs $PAIRS"
LOWERCASE=1
PREPROCESS=()
# the multiple: batches as full as the limit allows, not rounded down to a multiple of 8
BATCH=(--max-tokens 2000 --required-batch-size-multiple 1)
CRITERION=(--criterion label_smoothed_cross_entropy --label-smoothing 0.1)

case $PAIRS in
  equal)
    CHOICE=(--equal-words)
    TEXT=(--bare-words --lowercase)
    ;;
  all)
    CHOICE=()
    TEXT=(--tokenize --lowercase --raw)
    ;;
  *) die "PAIRS=$PAIRS is unknown: expected equal or all" ;;
esac
case $MAX_NORMALIZE in 0 | 1) ;; *) die "MAX_NORMALIZE=$MAX_NORMALIZE is neither 0 nor 1" ;; esac
for name in EPOCHS TUNE_EPOCHS BEAM; do
  if ! is_number "${!name}" || [ "${!name}" = 0 ]; then die "$name=${!name} is no whole number above 0"; fi
done
for name in ARCH ATTENTION BIAS OBJECTIVE TOPK; do
  [ -z "${!name:-}" ] || die "$name=${!name}: the stages choose the models of this recipe; leave $name out"
done
for name in $SYSTEMS; do
  case " $EVERY_SYSTEM " in *" $name "*) ;; *) die "SYSTEMS: $name is unknown: expected any of ${EVERY_SYSTEM// /, }" ;; esac
done
if [ "${EMBEDDINGS_SOURCE:+1}" != "${EMBEDDINGS_TARGET:+1}" ]; then
  die "EMBEDDINGS_SOURCE and EMBEDDINGS_TARGET go together: give both or neither"
fi
GIVEN_TEACHER=${TEACHER:-}
TEACHER="" # which would guide the attention of the models

is_file() { # is_file VARIABLE VALUE
  [ -z "$2" ] || [ -f "$2" ] || [ "$DRY_RUN" = 1 ] || die "$1=$2 is no file"
}

check_recipe() {
  is_file TEACHER "$GIVEN_TEACHER"
  is_file EMBEDDINGS_SOURCE "$EMBEDDINGS_SOURCE"
  is_file EMBEDDINGS_TARGET "$EMBEDDINGS_TARGET"
}

GENERATE=(--beam "$BEAM" --max-len-a 1.5 --max-len-b 20)

read_corpus() {
  local split
  if [ -z "$DATA" ]; then
    fetch "$CORPUS_URL/spa-eng.zip" spa-eng.zip 2000000
    unpack spa-eng.zip "$FILE"
  fi
  # shellcheck disable=SC2086 # two words
  run python "$HERE/split_pairs.py" --folder "$CORPUS" --file "$FILE" --languages $LANGUAGES --to "$PARTIAL" \
    --at-least 100000 ${STRICT:+--strict} "${CHOICE[@]}" || exit 1
  for split in train valid test; do
    CORPUS=$PARTIAL read_split "$split" "$split.en" "$split.es" 1 "${TEXT[@]}"
  done
}

# Where a system's model and its translations are.
locate() { # locate SYSTEM
  TRAIN_STAGE=$1
  RUN=$WORK/$1.seed$SEED
  RESULTS=$RUN/beam$BEAM
}

locate_teacher() {
  locate teacher
  TEACHER_PT=$RUN/checkpoint_best.pt
  ELECTION=$RUN/election.json
  WORDS=$WORK/agent.seed$SEED/words.json
}

needs() { # needs STAGE FILE
  [ -f "$2" ] || [ "$DRY_RUN" = 1 ] || die "$2 is missing: run the $1 stage first"
}

# train_system SYSTEM ARCH RATE EPOCHS [options]
train_system() {
  local system=$1 rate=$3 epochs=$4
  ARCH=$2
  shift 4
  case " $SYSTEMS " in *" $system "*) ;; *) [ "$system" = teacher ] || return 0 ;; esac
  locate "$system"
  OPTIMIZER=(--optimizer adam --lr "$rate")
  # the rate is halved in every epoch of the last quarter
  SCHEDULE=(--lr-scheduler fixed --force-anneal "$((epochs - epochs / 4))" --lr-shrink 0.5)
  OTHER=(--dropout 0.2 --clip-norm 5 --max-epoch "$epochs" "$@")
  if [ "$MAX_NORMALIZE" = 1 ]; then OTHER+=(--attention-max-normalize); fi
  # shellcheck disable=SC2206 # ARCH_OPTIONS is words
  OTHER+=($ARCH_OPTIONS)
  stage_train
}

stage_teacher() {
  if [ -z "$GIVEN_TEACHER" ]; then
    train_system teacher lstm_soft 1e-3 "$EPOCHS" --attention-score additive
    return
  fi
  locate_teacher
  [ ! -f "$RUN/train.options" ] || die "TEACHER=$GIVEN_TEACHER: $RUN holds a teacher that was trained; choose another OUT, or remove that folder"
  say "teacher: $GIVEN_TEACHER"
  run mkdir -p "$RUN"
  if [ "$DRY_RUN" = 1 ] || ! cmp -s "$GIVEN_TEACHER" "$TEACHER_PT"; then run cp "$GIVEN_TEACHER" "$TEACHER_PT"; fi
}

# derive FILE FROM COMMAND...: lets the command make FILE, unless it has done so with the same content of file FROM.
derive() {
  local file=$1 from=$2 stamp=""
  shift 2
  if [ "$DRY_RUN" != 1 ]; then
    stamp="$* $(cksum <"$from")"
    if [ -f "$file" ] && [ "$(cat "$file.done" 2>/dev/null)" = "$stamp" ]; then
      say "${file##*/}: done before ($file)"
      return
    fi
    rm -f "$file.done"
  fi
  say "${file##*/}: from $from"
  run mkdir -p "${file%/*}"
  run "$@" || die "$file could not be made"
  if [ "$DRY_RUN" != 1 ]; then echo "$stamp" >"$file.done"; fi
}

# Sets PLOT to the option for a picture, where pictures can be drawn.
picture() {
  PLOT=()
  if [ "$DRY_RUN" = 1 ] || python -c "import matplotlib" 2>/dev/null; then PLOT=(--plot "$1"); fi
}

stage_election() {
  locate_teacher
  needs prepare "$WORK/data/done"
  needs teacher "$TEACHER_PT"
  choose_device
  picture "$RUN/offsets.png"
  # shellcheck disable=SC2086 # ELECTION_OPTIONS is words
  derive "$ELECTION" "$TEACHER_PT" attn-analysis election "$WORK/data/bin" \
    --path "$TEACHER_PT" --gen-subset valid --out "$ELECTION" "${PLOT[@]}" $ELECTION_OPTIONS "${CPU[@]}"
}

stage_agent() {
  local embeddings=()
  locate_teacher
  needs prepare "$WORK/data/done"
  picture "${WORDS%/*}/rewards.png"
  if [ -n "$EMBEDDINGS_SOURCE" ]; then
    embeddings=(--embeddings-source "$EMBEDDINGS_SOURCE" --embeddings-target "$EMBEDDINGS_TARGET")
  fi
  # shellcheck disable=SC2086 # AGENT_OPTIONS is words
  derive "$WORDS" "$WORK/data/bin/dict.$TGT.txt" attn-analysis q-agent "$WORK/data/bin" \
    --source-lang "$SRC" --target-lang "$TGT" "${embeddings[@]}" --out "$WORDS" "${PLOT[@]}" --seed "$SEED" $AGENT_OPTIONS
}

# A student has the teacher's parameters, the mask of the election, and perhaps the agent's words.
student() { # student SYSTEM ARCH RATE EPOCHS
  local files=(--election-teacher)
  locate_teacher
  needs teacher "$TEACHER_PT"
  needs election "$ELECTION"
  files+=("$TEACHER_PT" --gaussian-election "$ELECTION")
  LASTING_FILES=("$TEACHER_PT" "$ELECTION")
  if [ "$2" = lstm_election ]; then
    needs agent "$WORDS"
    files+=(--election-table "$WORDS")
    LASTING_FILES+=("$WORDS")
  fi
  train_system "$@" "${files[@]}"
  LASTING_FILES=()
}

# One update at rate zero writes the checkpoint of a model in which nothing is trained.
untrained() { # untrained SYSTEM ARCH
  local own=("${EXTRA[@]}")
  EXTRA+=(--lr-scheduler fixed --lr 0 --max-update 1)
  student "$1" "$2" 0 1
  EXTRA=("${own[@]}")
}

stage_mask() { untrained mask lstm_gaussian; }
stage_mask_words() { untrained mask-words lstm_election; }
stage_gaussian() { student gaussian lstm_gaussian 5e-4 "$TUNE_EPOCHS"; }
stage_election_model() { student election-model lstm_election 5e-4 "$TUNE_EPOCHS"; }

each_system() { # each_system COMMAND...: run it with RUN and RESULTS of every system
  local system
  for system in $SYSTEMS; do
    locate "$system"
    "$@"
  done
}

stage_generate() { each_system translate; }
stage_score() { each_system score_translations; }

stage_table() {
  local scores=() election=()
  collect() {
    needs score "$RESULTS/$SPLIT.tokenized.json"
    scores+=("$TRAIN_STAGE=$RESULTS/$SPLIT.tokenized.json")
  }
  each_system collect
  locate_teacher
  if [ -f "$ELECTION" ] || [ "$DRY_RUN" = 1 ]; then election=(--election "$ELECTION"); fi
  run python "$HERE/election_table.py" --scores "${scores[@]}" "${election[@]}" --to "$WORK/table.seed$SEED.md" \
    --title "$SRC-$TGT, PAIRS=$PAIRS, $SPLIT, beam $BEAM, seed $SEED" || exit 1
}

ARCH=lstm_soft
recipe_main "$@"
