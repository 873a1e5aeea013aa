# shellcheck shell=bash
# What the recipes of document classification share; sourced, never run. It builds on _common.sh.
#
# A recipe sets RECIPE, AT_HOME, PARTS (folds, or one name), its defaults and options, defines read_part PART (which
# writes text/{train,valid,test}.{input0,label} below PARTIAL), and calls documents_main "$@". Layout under OUT:
#
#   raw/                        what was downloaded
#   PART/data/                  text/, bin/input0, bin/label (fairseq's), done (the stamp)
#   PART/MODEL.seedSEED/        checkpoints, train.log, test.json (scores), test.jsonl (classes and weights), stamps
#   PART/tfidf.json             the baseline
#   table.md, table.json        all systems over all parts

# shellcheck source=scripts/recipes/_common.sh
source "$(dirname "${BASH_SOURCE[0]}")/_common.sh"
STAGES_KNOWN="prepare train evaluate baseline table"
MODELS_KNOWN="han han_flat han_mean"
DICTIONARIES=(input0/dict.txt label/dict.txt)

check_document_settings() {
  local name option
  case $DEVICE in auto | cpu | cuda) ;; *) die "DEVICE=$DEVICE is unknown: expected auto, cpu or cuda" ;; esac
  case $SPLIT in valid | test) ;; *) die "SPLIT=$SPLIT is unknown: expected valid or test" ;; esac
  is_number "$SEED" || die "SEED=$SEED is no whole number"
  is_number "$THRESHOLD" || die "THRESHOLD=$THRESHOLD is no whole number"
  if ! is_number "$JOBS" || [ "$JOBS" = 0 ]; then die "JOBS=$JOBS is no whole number above 0"; fi
  for name in $MODELS; do
    case " $MODELS_KNOWN " in *" $name "*) ;; *) die "MODELS: $name is unknown: expected any of ${MODELS_KNOWN// /, }" ;; esac
  done
  if [ -n "$DATA" ] && [ ! -d "$DATA" ]; then die "DATA=$DATA is no folder: expected one with $AT_HOME"; fi
  if [ -n "$EMBEDDINGS" ] && [ ! -f "$EMBEDDINGS" ] && [ "$DRY_RUN" != 1 ]; then
    die "EMBEDDINGS=$EMBEDDINGS is no file: expected word vectors as text"
  fi
  for option in "${EXTRA[@]}"; do
    case ${option%%=*} in
      -a | --arch) die "$option: the architectures are chosen by MODELS" ;;
      --seed) die "$option: the seed is chosen by SEED=$SEED" ;;
      --save-dir) die "$option: the folder is chosen by OUT=$OUT" ;;
      --user-dir | --task) die "$option is set by the recipe" ;;
    esac
  done
}

# Sets what belongs to a part and a model.
locate() { # locate PART [MODEL]
  PART=$1
  WORK=$OUT/$1
  ARCH=${2:-}
  RUN=$WORK/$ARCH${EMBEDDINGS:+.pretrained}.seed$SEED
}

stage_prepare() {
  local part
  for part in $PARTS; do
    locate "$part"
    prepare_part
  done
}

prepare_part() {
  local side settings="recipe $RECIPE $PART threshold $THRESHOLD"
  if ! begin_data "$settings" text bin; then return; fi
  say "prepare: $PART, from $CORPUS"
  read_part "$PART"
  for side in input0 label; do
    run_quietly "$WORK/preprocess.$side.log" fairseq-preprocess --only-source --trainpref "$PARTIAL/text/train.$side" \
      --validpref "$PARTIAL/text/valid.$side" --testpref "$PARTIAL/text/test.$side" --destdir "$PARTIAL/bin/$side" \
      --workers "$JOBS" --thresholdsrc "$([ $side = label ] && echo 1 || echo "$THRESHOLD")"
  done
  if [ "$DRY_RUN" = 1 ]; then return; fi
  finish_data "$settings"
  say "prepare: $(grep -c '' "$WORK/data/bin/input0/dict.txt") types in $WORK/data"
}

stage_train_documents() {
  local part model
  for part in $PARTS; do
    for model in $MODELS; do
      locate "$part" "$model"
      EPOCHS=$(epochs_of "$model")
      OTHER=("${MODEL_OPTIONS[@]}" --max-epoch "$EPOCHS")
      if [ "$DRY_RUN" != 1 ] && command -v flock >/dev/null; then
        mkdir -p "$RUN"
        exec 8>"$RUN/train.lock"
        if ! flock -n 8; then
          say "train: $RUN is being trained by another process"
          continue
        fi
        # after an interruption, or by another process in the meantime
      fi
      stage_train
      if [ "$DRY_RUN" != 1 ] && command -v flock >/dev/null; then flock -u 8; fi
    done
  done
}

stage_evaluate() {
  local part model stamp=""
  choose_device
  for part in $PARTS; do
    for model in $MODELS; do
      locate "$part" "$model"
      if [ "$DRY_RUN" != 1 ]; then
        [ -f "$RUN/checkpoint_best.pt" ] || die "$RUN/checkpoint_best.pt is missing: run the train stage first"
        stamp=$(cksum <"$RUN/checkpoint_best.pt")
        if [ "$(cat "$RUN/$SPLIT.done" 2>/dev/null)" = "$stamp" ]; then
          say "evaluate: done before ($RUN/$SPLIT.json)"
          continue
        fi
      fi
      say "evaluate: $SPLIT of $PART with $RUN/checkpoint_best.pt"
      run attn-analysis classify "$WORK/data/bin" --path "$RUN/checkpoint_best.pt" \
        --gen-subset "$SPLIT" --out "$RUN/$SPLIT.jsonl" --scores "$RUN/$SPLIT.json" \
        --plot "$RUN/$SPLIT.html" "${CPU[@]}" || die "classification failed with $RUN/checkpoint_best.pt"
      if [ "$DRY_RUN" != 1 ]; then echo "$stamp" >"$RUN/$SPLIT.done"; fi
    done
  done
}

stage_baseline() {
  local part
  for part in $PARTS; do
    locate "$part"
    if [ "$DRY_RUN" != 1 ]; then
      [ -f "$WORK/data/done" ] || die "$WORK/data is not prepared: run the prepare stage first"
      if [ "$WORK/tfidf.$SPLIT.json" -nt "$WORK/data/done" ]; then
        say "baseline: done before ($WORK/tfidf.$SPLIT.json)"
        continue
      fi
    fi
    say "baseline: TF-IDF and logistic regression on $PART"
    run python "$HERE/document_baseline.py" "$WORK/data/text" --split "$SPLIT" --to "$WORK/tfidf.$SPLIT.json" || exit 1
  done
}

stage_table() {
  local part model runs=()
  for part in $PARTS; do
    for model in $MODELS; do
      locate "$part" "$model"
      runs+=("$model=$RUN")
    done
    runs+=("tfidf=$OUT/$part/tfidf.$SPLIT.json")
  done
  run python "$HERE/document_table.py" "${runs[@]}" --split "$SPLIT" --title "$TITLE" --to "$OUT/table.md" \
    --json "$OUT/table.json" || exit 1
}

documents_main() {
  local stage
  : "${DRY_RUN:=0}" "${SEED:=1}" "${DATA:=}" "${SPLIT:=test}" "${DEVICE:=auto}" "${OUT:=$ROOT/out/$RECIPE}"
  : "${EMBEDDINGS:=}" "${MODELS:=han}" "${THRESHOLD:=3}" "${OBJECTIVE:=}" "${TEACHER:=}"
  : "${JOBS:=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)}"
  parse_arguments "$@"
  check_document_settings
  check_recipe
  case $OUT in /*) ;; *) OUT=$PWD/$OUT ;; esac
  if [ -n "$EMBEDDINGS" ]; then
    case $EMBEDDINGS in /*) ;; *) EMBEDDINGS=$PWD/$EMBEDDINGS ;; esac
    MODEL_OPTIONS+=(--word-embeddings "$EMBEDDINGS")
  fi
  locate_tools
  for stage in "${STAGES[@]}"; do
    if [ "$stage" = train ]; then stage=train_documents; fi
    "stage_${stage//-/_}"
  done
}
