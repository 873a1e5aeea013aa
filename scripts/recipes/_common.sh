# shellcheck shell=bash
# What all recipes share: options, stages, stamps, downloads. Sourced, never run.
#
# A recipe sets RECIPE, LANGUAGES, AT_HOME (what a folder must hold) and its defaults, defines read_corpus, and
# calls recipe_main "$@"; what it checks of its own stands in check_recipe. Layout under OUT, so that settings that do
# not go together never share a folder:
#
#   raw/                               what was downloaded
#   SRC-TGT.BPE/data/                  text/ (as read), segmented/, bin/ (fairseq's), done (the stamp)
#                                      (SRC-TGT.CORPUS_TAG.BPE where a recipe has several corpora)
#   SRC-TGT.BPE/ARCH.seedSEED/         checkpoints, train.log, test.hyp, test.tokenized.json, stamps
#                                      (ARCH.OBJECTIVE.seedSEED where OBJECTIVE is set; top5/ holds what TOPK=5 translated;
#                                      ATTENTION, BIAS and guided, of TEACHER, stand in the name likewise)
#
# A stamp is written last and holds the settings of its stage; a stage is skipped when its stamp says the same.

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
USER_DIR=$ROOT/fairseq_attn_plugin
STAGES_KNOWN="prepare train generate score" # a recipe may have others
TRAIN_STAGE=train                           # the one that makes RUN/checkpoint_best.pt
LASTING_FILES=()                            # besides the data, what must not change when a training is continued
DICTIONARIES=()                             # nor may these, below WORK/data/bin
LANGUAGE_OPTIONS=()                         # of fairseq-train

die() {
  echo "$RECIPE: $*" >&2
  exit 1
}

say() { echo "[$RECIPE] $*"; }

# Run a command, or only show it (DRY_RUN=1).
run() {
  if [ "$DRY_RUN" = 1 ]; then
    printf '%q ' "$@"
    echo
  else
    "$@"
  fi
}

# Run a command with its output in a file that appears only when the command succeeded.
run_into() {
  local file=$1
  shift
  if [ "$DRY_RUN" = 1 ]; then
    printf '%q ' "$@"
    printf '> %q\n' "$file"
  else
    "$@" >"$file.partial"
    mv "$file.partial" "$file"
  fi
}

# Run a command with its output in a log, which is shown only when the command fails.
run_quietly() {
  local log=$1
  shift
  if [ "$DRY_RUN" = 1 ]; then
    run "$@"
  elif ! "$@" >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    die "$1 failed, see $log"
  fi
}

# The same for a command that draws a progress bar: on a terminal the bar is shown.
run_with_progress() {
  if [ -t 2 ]; then
    shift
    run "$@" || exit 1
  else
    run_quietly "$@"
  fi
}

usage() {
  # the comment at the head of the recipe is its manual
  sed -n '2,/^[^#]/{/^#/{s/^# \{0,1\}//;p;};}' "$0"
}

parse_arguments() {
  local every
  read -ra every <<<"$STAGES_KNOWN"
  STAGES=()
  EXTRA=()
  while [ $# -gt 0 ]; do
    case $1 in
      -h | --help)
        usage
        exit 0
        ;;
      --dry-run) DRY_RUN=1 ;;
      --)
        shift
        EXTRA=("$@")
        break
        ;;
      all) STAGES+=("${every[@]}") ;;
      *)
        case " $STAGES_KNOWN " in
          *" ${1// /,} "*) STAGES+=("$1") ;;
          *) die "unknown stage or option '$1': expected ${STAGES_KNOWN// /, }, all, --dry-run, or -- followed by fairseq-train options" ;;
        esac
        ;;
    esac
    shift
  done
  if [ ${#STAGES[@]} = 0 ]; then STAGES=("${every[@]}"); fi
}

is_number() { [[ $1 =~ ^[0-9]+$ ]]; }

check_recipe() { :; }

check_settings() {
  local other option
  case " $LANGUAGES " in *" $SRC "*) ;; *) die "SRC=$SRC is no language of this corpus: expected one of ${LANGUAGES// /, }" ;; esac
  case " $LANGUAGES " in *" $TGT "*) ;; *) die "TGT=$TGT is no language of this corpus: expected one of ${LANGUAGES// /, }" ;; esac
  other=${LANGUAGES% *}
  if [ "$SRC" = "$other" ]; then other=${LANGUAGES#* }; fi
  [ "$SRC" != "$TGT" ] || die "SRC and TGT are both '$SRC': with SRC=$SRC, TGT must be $other"
  case $BPE in
    none | subword-nmt | sentencepiece) ;;
    *) die "BPE=$BPE is unknown: expected subword-nmt, sentencepiece or none" ;;
  esac
  case $SPLIT in valid | test) ;; *) die "SPLIT=$SPLIT is unknown: expected valid or test" ;; esac
  case $DEVICE in auto | cpu | cuda) ;; *) die "DEVICE=$DEVICE is unknown: expected auto, cpu or cuda" ;; esac
  is_number "$SEED" || die "SEED=$SEED is no whole number"
  is_number "$BPE_SIZE" || die "BPE_SIZE=$BPE_SIZE is no whole number"
  is_number "$CUT" || die "CUT=$CUT is no whole number (0: do not cut)"
  is_number "$LONGEST" || die "LONGEST=$LONGEST is no whole number (0: drop no sentence)"
  if ! is_number "$JOBS" || [ "$JOBS" = 0 ]; then die "JOBS=$JOBS is no whole number above 0"; fi
  case $ARCH in "" | */*) die "ARCH='$ARCH' is no architecture's name" ;; esac
  if [ -n "$DATA" ] && [ ! -d "$DATA" ]; then
    die "DATA=$DATA is no folder: expected one with $AT_HOME"
  fi
  for option in "${EXTRA[@]}"; do
    case ${option%%=*} in
      -a | --arch) die "$option: the architecture is chosen by ARCH=$ARCH" ;;
      --seed) die "$option: the seed is chosen by SEED=$SEED" ;;
      --save-dir) die "$option: the folder is chosen by OUT=$OUT" ;;
      --user-dir | -s | --source-lang | -t | --target-lang) die "$option is set by the recipe (SRC, TGT)" ;;
      --criterion | --objective)
        if [ -n "$OBJECTIVE" ]; then die "$option: the criterion and its objective are chosen by OBJECTIVE=$OBJECTIVE"; fi
        ;;
    esac
  done
}

# ATTENTION and BIAS are options of the model; a TEACHER's alignments guide the attention, and models of two directions
# have a criterion of their own.
choose_attention() {
  case $ARCH in
    lstm) [ -z "$ATTENTION$BIAS" ] || die "ATTENTION='$ATTENTION' BIAS='$BIAS': stock fairseq's lstm has neither; choose ARCH=lstm_soft or another" ;;
    lstm_agreement*)
      [ -z "$OBJECTIVE" ] || die "OBJECTIVE=$OBJECTIVE is for models of one direction: leave it out with ARCH=$ARCH"
      CRITERION[1]=agreement # with the smoothing of the recipe's own
      [ -z "$TEACHER" ] || die "TEACHER=$TEACHER guides models of one direction: leave it out with ARCH=$ARCH"
      ;;
  esac
  case $ATTENTION$BIAS in *[!a-z0-9,_-]*) die "ATTENTION='$ATTENTION' BIAS='$BIAS': expected names, as in ATTENTION=structured BIAS=position,markov" ;; esac
  OTHER+=(${ATTENTION:+--attention "$ATTENTION"} ${BIAS:+--attention-bias "$BIAS"})
  if [ -n "$TEACHER" ]; then
    [ -z "$OBJECTIVE" ] || die "OBJECTIVE=$OBJECTIVE and TEACHER=$TEACHER both choose the criterion: leave one out"
    if given --criterion; then die "--criterion: with TEACHER=$TEACHER it is guided_alignment"; fi
    [ -f "$TEACHER" ] || [ "$DRY_RUN" = 1 ] || die "TEACHER=$TEACHER is no file: expected a checkpoint of a trained model"
    case $TEACHER in /*) ;; *) TEACHER=$PWD/$TEACHER ;; esac
    CRITERION[1]=guided_alignment # with the smoothing of the recipe's own
    LASTING_FILES+=("$TEACHER")
    OTHER+=(--load-alignments)
  fi
}

# What a TEACHER's attention says of the training and validation data, in a data folder of the run's own.
guide() {
  local split
  DATA_BIN=$RUN/bin
  if [ "$DRY_RUN" != 1 ] && [ "$(cat "$DATA_BIN/done" 2>/dev/null)" = "$(teacher_stamp)" ]; then return; fi
  run mkdir -p "$DATA_BIN"
  run ln -sf "$WORK/data/bin"/* "$DATA_BIN"
  for split in train valid; do
    say "alignments of $split by $TEACHER"
    run attn-analysis teacher-alignments "$DATA_BIN" --path "$TEACHER" --gen-subset "$split" \
      --into-data --overwrite "${CPU[@]}" || die "the teacher's alignments could not be made"
  done
  if [ "$DRY_RUN" != 1 ]; then teacher_stamp >"$DATA_BIN/done"; fi
}

# Changes with the teacher's parameters and with the data.
teacher_stamp() {
  cksum <"$TEACHER"
  cat "$WORK/data/done"
}

# With OBJECTIVE the training loss is --criterion latent_alignment instead of the recipe's CRITERION. What an objective
# needs besides its name stands here; options after -- come later and win (-- --soft-updates 500).
choose_objective() {
  local known="soft marginal hard-enum hard-reinforce elbo-enum elbo-reinforce elbo-gumbel elbo-sum-and-sample wake-sleep dirichlet"
  local latent=0
  case $ARCH in lstm_latent*) latent=1 ;; esac
  if [ -n "$TOPK" ]; then
    if ! is_number "$TOPK" || [ "$TOPK" = 0 ]; then die "TOPK=$TOPK is no whole number above 0"; fi
    [ $latent = 1 ] || die "TOPK=$TOPK needs latent alignments: choose ARCH=lstm_latent, or leave TOPK out with ARCH=$ARCH"
  fi
  if [ -z "$OBJECTIVE" ]; then
    [ $latent = 0 ] || given --criterion || die "ARCH=$ARCH needs an OBJECTIVE: expected one of ${known// /, }"
    return
  fi
  CRITERION=(--criterion latent_alignment --objective "$OBJECTIVE")
  case $OBJECTIVE in
    # no posterior: they read the prior only
    soft | marginal | hard-enum | hard-reinforce) if [ $latent = 1 ]; then OTHER+=(--latent-posterior False); fi ;;
    elbo-enum | elbo-reinforce | elbo-sum-and-sample) ;;
    elbo-gumbel) CRITERION+=(--gumbel-tau 0.1) ;;
    wake-sleep) CRITERION+=(--num-samples 5) ;;
    # it does not get off the ground without an epoch of soft attention, and one in which its KL sets in
    dirichlet) CRITERION+=(--soft-updates "$EPOCH_UPDATES" --kl-warmup-updates "$EPOCH_UPDATES") ;;
    *) die "OBJECTIVE=$OBJECTIVE is unknown: expected one of ${known// /, }" ;;
  esac
  if [ $latent = 0 ] && [ "$OBJECTIVE" != soft ]; then
    die "OBJECTIVE=$OBJECTIVE needs latent alignments: choose ARCH=lstm_latent, or OBJECTIVE=soft with ARCH=$ARCH"
  fi
}

# The active environment if it has fairseq, else the checkout's own .venv.
locate_tools() {
  local need="fairseq subword_nmt sentencepiece sacrebleu sacremoses tqdm"
  if [ "$DRY_RUN" = 1 ]; then return; fi
  local probe="import sys; from importlib.util import find_spec; sys.exit(any(find_spec(m) is None for m in sys.argv[1:]))"
  # shellcheck disable=SC2086 # the words of $need are the arguments
  if ! { command -v fairseq-train && python -c "$probe" $need; } >/dev/null 2>&1; then
    # shellcheck disable=SC2086
    if [ -x "$ROOT/.venv/bin/fairseq-train" ] && "$ROOT/.venv/bin/python" -c "$probe" $need 2>/dev/null; then
      PATH=$ROOT/.venv/bin:$PATH
    else
      die "no environment with fairseq and ${need#* }: run 'bash scripts/setup.sh' in $ROOT"
    fi
  fi
  export PYTHONPATH="$ROOT${PYTHONPATH:+:$PYTHONPATH}"
}

# Sets CPU to (--cpu) where torch sees no CUDA device.
choose_device() {
  CPU=()
  case $DEVICE in
    cpu) CPU=(--cpu) ;;
    auto)
      if [ "$DRY_RUN" = 1 ]; then
        command -v nvidia-smi >/dev/null || CPU=(--cpu)
      elif ! python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
        CPU=(--cpu)
      fi
      ;;
  esac
}

# fetch URL FILE BYTES: download to raw/FILE unless it is there; less than BYTES is taken for a failure.
fetch() {
  local url=$1 file=$OUT/raw/$2 least=$3 progress=(--silent --show-error) size
  if [ "$DRY_RUN" != 1 ] && [ -f "$file" ]; then return; fi
  if [ -t 2 ]; then progress=(--progress-bar); fi
  say "fetching $url"
  # some homes of corpora refuse curl's own name
  run curl --fail --location --retry 5 --retry-delay 5 --connect-timeout 30 --user-agent fairseq-attn-recipe \
    "${progress[@]}" --output "$file.partial" "$url" ||
    die "$url cannot be fetched: try again, or fetch it by hand and pass DATA=folder with $AT_HOME"
  if [ "$DRY_RUN" = 1 ]; then return; fi
  size=$(wc -c <"$file.partial")
  if [ "$size" -lt "$least" ]; then
    rm -f "$file.partial"
    die "$url gave $((size)) bytes, expected at least $least: truncated or moved; try again, or pass DATA=folder with $AT_HOME"
  fi
  mv "$file.partial" "$file"
}

# unpack ARCHIVE MEMBER...: members of raw/ARCHIVE (.tgz, .zip) into raw/, by their base names.
unpack() {
  local archive=$OUT/raw/$1 member missing=0
  shift
  for member in "$@"; do [ -f "$OUT/raw/${member##*/}" ] || missing=1; done
  if [ $missing = 0 ] && [ "$DRY_RUN" != 1 ]; then return; fi
  run python "$HERE/unpack.py" "$archive" "$OUT/raw" "$@" || exit 1
}

# read_split SPLIT FILE_A FILE_B PAIRS [options]: one split of the corpus into text/SPLIT.{a,b}. LANGUAGES gives
# the order of the sides. PAIRS is what the published split holds: a download with less is an error.
read_split() {
  local split=$1 files=("$2" "$3") pairs=$4
  shift 4
  # shellcheck disable=SC2086 # two words
  run python "$HERE/parallel_text.py" import --folder "$CORPUS" --files "${files[@]}" --languages $LANGUAGES \
    --expected "$AT_HOME" --to "$PARTIAL/text/$split" --at-least "$pairs" ${STRICT:+--strict} --jobs "$JOBS" "$@" || exit 1
}

each_text() { # each_text COMMAND...: run COMMAND SPLIT.LANGUAGE for all six files
  local split language
  for split in train valid test; do
    for language in $SRC $TGT; do "$@" "$split.$language" || exit 1; done
  done
}

apply_subword_nmt() {
  run subword-nmt apply-bpe --codes "$PARTIAL/codes" --num-workers "$JOBS" \
    --input "$PARTIAL/text/$1" --output "$PARTIAL/segmented/$1"
}

apply_sentencepiece() {
  run python "$HERE/sentencepiece_bpe.py" apply "$PARTIAL/spm.model" "$PARTIAL/text/$1" "$PARTIAL/segmented/$1"
}

copy_words() { run cp "$PARTIAL/text/$1" "$PARTIAL/segmented/$1"; }

segment() {
  local text=$PARTIAL/text/train
  case $BPE in
    subword-nmt)
      say "learning $BPE_SIZE joint merges with subword-nmt"
      run_with_progress "$WORK/bpe.log" subword-nmt learn-joint-bpe-and-vocab --input "$text.$SRC" "$text.$TGT" --symbols "$BPE_SIZE" \
        --output "$PARTIAL/codes" --write-vocabulary "$PARTIAL/vocab.$SRC" "$PARTIAL/vocab.$TGT"
      each_text apply_subword_nmt
      ;;
    sentencepiece)
      say "learning a joint SentencePiece BPE model of $BPE_SIZE pieces"
      run python "$HERE/sentencepiece_bpe.py" learn "$PARTIAL/spm.model" "$BPE_SIZE" "$text.$SRC" "$text.$TGT" || exit 1
      each_text apply_sentencepiece
      ;;
    none) each_text copy_words ;;
  esac
}

# Whether data of SETTINGS are to be prepared. If so, CORPUS is where they come from, STRICT is set for the corpus that the
# recipe knows, and PARTIAL is empty but for FOLDERs, below a lock that finish_data takes away.
begin_data() { # begin_data SETTINGS FOLDER...
  local settings=$1
  shift
  if [ -f "$WORK/data/done" ] && [ "$DRY_RUN" != 1 ]; then
    [ "$(head -n 1 "$WORK/data/done")" = "$settings" ] ||
      die "$WORK/data was prepared with other settings ('$(head -n 1 "$WORK/data/done")', now '$settings'): choose another OUT, or remove that folder"
    # without DATA any source will do: the text is here
    if [ -z "$DATA" ] || [ "$(sed -n 2p "$WORK/data/done")" = "DATA $(cd "$DATA" && pwd)" ]; then
      say "prepare: done before ($WORK/data)"
      return 1
    fi
    die "$WORK/data was prepared from '$(sed -n 2p "$WORK/data/done")', not from DATA=$DATA: choose another OUT, or remove that folder"
  fi
  PARTIAL=$WORK/data.partial
  STRICT=1
  CORPUS=$OUT/raw
  if [ -n "$DATA" ]; then
    CORPUS=$(cd "$DATA" && pwd) || exit 1
    STRICT=
  fi
  if [ "$DRY_RUN" = 1 ]; then return 0; fi
  mkdir -p "$OUT/raw" "$WORK" || exit 1
  if command -v flock >/dev/null; then
    # another training of the same grid may be preparing the same folder
    exec 9>"$WORK/prepare.lock"
    flock 9
    if [ -f "$WORK/data/done" ]; then
      flock -u 9
      begin_data "$settings" "$@"
      return
    fi
  fi
  rm -rf "$PARTIAL"
  mkdir -p "${@/#/$PARTIAL/}" || exit 1
}

# What was prepared in PARTIAL becomes the data.
finish_data() { # finish_data SETTINGS
  printf '%s\nDATA %s\n' "$1" "${DATA:+$CORPUS}" >"$PARTIAL/done"
  rm -rf "$WORK/data"
  mv "$PARTIAL" "$WORK/data"
  if command -v flock >/dev/null; then flock -u 9; fi
}

stage_prepare() {
  local settings="recipe $RECIPE $SRC-$TGT $BPE_TAG cut $CUT ${PREPARE_SETTINGS:-}"
  if [ "$LONGEST" != 0 ]; then settings+=" longest $LONGEST"; fi
  if ! begin_data "$settings" text segmented; then return; fi
  say "prepare: $SRC-$TGT, BPE=$BPE, from $CORPUS"
  read_corpus
  segment
  if [ "$CUT" != 0 ]; then
    # shellcheck disable=SC2086 # two words
    run python "$HERE/parallel_text.py" cut "$PARTIAL/segmented/train" --languages $LANGUAGES --length "$CUT" || exit 1
  fi
  if [ "$LONGEST" != 0 ]; then
    # shellcheck disable=SC2086 # two words
    run python "$HERE/parallel_text.py" drop "$PARTIAL/segmented/train" --languages $LANGUAGES --length "$LONGEST" || exit 1
  fi
  run_quietly "$WORK/preprocess.log" fairseq-preprocess --source-lang "$SRC" --target-lang "$TGT" --trainpref "$PARTIAL/segmented/train" \
    --validpref "$PARTIAL/segmented/valid" --testpref "$PARTIAL/segmented/test" --destdir "$PARTIAL/bin" \
    --workers "$JOBS" "${PREPROCESS[@]}"
  if [ "$DRY_RUN" = 1 ]; then return; fi
  finish_data "$settings"
  say "prepare: $(grep -c '' "$WORK/data/bin/dict.$SRC.txt") $SRC and $(grep -c '' "$WORK/data/bin/dict.$TGT.txt") $TGT types in $WORK/data"
}

# The halving of the TensorFlow seq2seq tutorial ("luong234") for UPDATES updates, into SCHEDULE: the rate stays for
# two thirds of them, and the rest has four equal parts, at the ends of which it is halved.
tutorial_schedule() {
  local rate=$1 start part
  is_number "$UPDATES" && [ "$UPDATES" -ge 12 ] || die "UPDATES=$UPDATES is no whole number of 12 or more"
  start=$((UPDATES * 2 / 3))
  part=$(((UPDATES - start) / 4))
  SCHEDULE=(--lr-scheduler manual --update2lr
    "$(awk -v lr="$rate" -v s=$start -v p=$part 'BEGIN { printf "{\"1\":%g,\"%d\":%g,\"%d\":%g,\"%d\":%g}", lr, s + p, lr / 2, s + 2 * p, lr / 4, s + 3 * p, lr / 8 }')")
}

# Whether one of the options is among those after --.
given() {
  local option name
  for option in "${EXTRA[@]}"; do
    for name in "$@"; do
      if [ "${option%%=*}" = "$name" ]; then return 0; fi
    done
  done
  return 1
}

# The recipe's options, in groups: fairseq refuses, say, --label-smoothing next to --criterion cross_entropy, so the
# group goes as a whole when the user chooses its leading option.
train_options() {
  TRAIN=(--arch "$ARCH")
  # stock fairseq's LSTM in the sizes that the plugin's architectures have by default
  if [ "$ARCH" = lstm ]; then
    TRAIN+=(--encoder-embed-dim 256 --encoder-hidden-size 256 --encoder-layers 2 --encoder-bidirectional
      --decoder-embed-dim 256 --decoder-hidden-size 256 --decoder-layers 2 --decoder-out-embed-dim 256)
  fi
  given --optimizer || TRAIN+=("${OPTIMIZER[@]}")
  given --lr-scheduler || TRAIN+=("${SCHEDULE[@]}")
  given --criterion || TRAIN+=("${CRITERION[@]}")
  given --batch-size --max-sentences --max-tokens || TRAIN+=("${BATCH[@]}")
  # shellcheck disable=SC2153 # the recipe sets OTHER
  TRAIN+=("${OTHER[@]}" --seed "$SEED" --no-epoch-checkpoints "${EXTRA[@]}")
}

# What must not change when a training is continued: one option a line, without those that only say how long it
# runs, what it prints and on what it runs.
lasting_options() {
  local option skip=0
  for option in "$@"; do
    case ${option%%=*} in
      --max-epoch | --max-update | --stop-time-hours | --patience | --log-interval | --log-format | --num-workers | \
        --save-interval | --save-interval-updates | --keep-interval-updates | --validate-interval | --cpu | \
        --no-progress-bar | --keep-best-checkpoints | --keep-last-epochs | --no-epoch-checkpoints) skip=1 ;;
      --*)
        skip=0
        printf '\n%s' "$option"
        ;;
      *) if [ $skip = 0 ]; then printf ' %s' "$option"; fi ;;
    esac
  done
  echo
  cksum "${DICTIONARIES[@]/#/$WORK/data/bin/}" "${LASTING_FILES[@]}" | sed 's/ [^ ]*\// /'
}

stage_train() {
  local difference
  train_options
  if [ "$DRY_RUN" != 1 ]; then
    [ -f "$WORK/data/done" ] || die "$WORK/data is not prepared: run the prepare stage first"
    if [ -f "$RUN/checkpoint_last.pt" ] && [ -f "$RUN/train.options" ]; then
      difference=$(diff "$RUN/train.options" <(lasting_options "${TRAIN[@]}") | sed -n 's/^< */was: /p;s/^> */now: /p' | tr '\n' ';' || true)
      [ -z "$difference" ] ||
        die "$RUN holds a training with other options (${difference%;}): choose another OUT, or remove that folder"
    fi
    if [ "$(cat "$RUN/train.done" 2>/dev/null)" = "${TRAIN[*]}" ]; then
      say "train: done before ($RUN)"
      return
    fi
  fi
  run mkdir -p "$RUN"
  if [ "$DRY_RUN" != 1 ]; then
    rm -f "$RUN/train.done"
    lasting_options "${TRAIN[@]}" >"$RUN/train.options"
  fi
  choose_device
  DATA_BIN=$WORK/data/bin
  if [ -n "$TEACHER" ]; then guide; fi
  if [ -f "$RUN/checkpoint_last.pt" ]; then say "train: continuing $RUN/checkpoint_last.pt"; else say "train: $RUN"; fi
  run fairseq-train "$DATA_BIN" --user-dir "$USER_DIR" "${LANGUAGE_OPTIONS[@]}" \
    --save-dir "$RUN" --log-file "$RUN/train.log" "${TRAIN[@]}" "${CPU[@]}" ||
    die "fairseq-train failed; the same command continues from the last checkpoint in $RUN"
  if [ "$DRY_RUN" != 1 ]; then
    [ -f "$RUN/checkpoint_best.pt" ] || die "fairseq-train left no checkpoint_best.pt in $RUN: leave out --no-save, --disable-validation and --no-best-checkpoints"
    echo "${TRAIN[*]}" >"$RUN/train.done"
  fi
}

stage_generate() { translate; }

# SPLIT with the model of RUN, into RESULTS.
translate() {
  local checkpoint=$RUN/checkpoint_best.pt stamp="" post=() detokenize=()
  case $BPE in
    subword-nmt) post=(--remove-bpe) ;;
    sentencepiece) post=(--remove-bpe sentencepiece) ;;
  esac
  # shellcheck disable=SC2206 # GENERATE_OPTIONS is words
  local options=(--beam 10 --batch-size 64 "${GENERATE[@]}" ${TOPK:+--latent-topk "$TOPK"} "${post[@]}" $GENERATE_OPTIONS)
  if [ "$DRY_RUN" != 1 ]; then
    [ -f "$WORK/data/done" ] || die "$WORK/data is not prepared: run the prepare stage first"
    [ -f "$checkpoint" ] || die "$checkpoint is missing: run the $TRAIN_STAGE stage first"
    stamp="${options[*]} $(cksum <"$checkpoint")"
    if [ "$(cat "$RESULTS/$SPLIT.generate.done" 2>/dev/null)" = "$stamp" ]; then
      say "generate: done before ($RESULTS/$SPLIT.hyp)"
      return
    fi
    rm -f "$RESULTS/$SPLIT.generate.done"
  fi
  choose_device
  say "generate: $SPLIT with $checkpoint"
  run fairseq-generate "$WORK/data/bin" --user-dir "$USER_DIR" --source-lang "$SRC" --target-lang "$TGT" \
    --path "$checkpoint" --gen-subset "$SPLIT" --results-path "$RESULTS" "${options[@]}" "${CPU[@]}" ||
    die "fairseq-generate failed with $checkpoint"
  if [ "$DRY_RUN" = 1 ] || [ -f "$WORK/data/text/$SPLIT.raw.$TGT" ]; then
    detokenize=(--detokenize "$TGT" "$RESULTS/$SPLIT.detok.hyp")
  fi
  run python "$HERE/hypotheses.py" "$RESULTS/generate-$SPLIT.txt" --reference "$WORK/data/text/$SPLIT.$TGT" \
    --to "$RESULTS/$SPLIT.hyp" "${detokenize[@]}" || exit 1
  if [ "$DRY_RUN" != 1 ]; then echo "$stamp" >"$RESULTS/$SPLIT.generate.done"; fi
}

# One BLEU score with its signature, into RESULTS/SPLIT.NAME.json and onto the screen.
score() { # score NAME REFERENCE HYPOTHESES [sacrebleu options]
  local name=$1 reference=$2 hypotheses=$3
  shift 3
  run_into "$RESULTS/$SPLIT.$name.json" sacrebleu "$reference" --input "$hypotheses" --metrics bleu --format json "$@"
  if [ "$DRY_RUN" != 1 ]; then
    say "$SPLIT BLEU, $name:"
    cat "$RESULTS/$SPLIT.$name.json"
  fi
}

stage_score() { score_translations; }

score_translations() {
  local text=$WORK/data/text stamp="" file folding=()
  if [ "$LOWERCASE" = 1 ]; then folding=(--lowercase); fi
  if [ "$DRY_RUN" != 1 ]; then
    [ -f "$RESULTS/$SPLIT.generate.done" ] || die "$RESULTS/$SPLIT.hyp is missing: run the generate stage first"
    stamp=$(cat "$RESULTS/$SPLIT.hyp" "$text/$SPLIT.$TGT" | cksum)
    if [ "$(cat "$RESULTS/$SPLIT.score.done" 2>/dev/null)" = "$stamp" ]; then
      say "score: done before"
      for file in "$RESULTS/$SPLIT".*tokenized.json; do echo "$file"; cat "$file"; done
      return
    fi
  fi
  # tokenised text is scored as it stands (no tokeniser), as the papers did; --force: its full stops are meant so
  score tokenized "$text/$SPLIT.$TGT" "$RESULTS/$SPLIT.hyp" --tokenize none --force "${folding[@]}"
  if [ "$DRY_RUN" = 1 ] || [ -f "$RESULTS/$SPLIT.detok.hyp" ]; then
    score detokenized "$text/$SPLIT.raw.$TGT" "$RESULTS/$SPLIT.detok.hyp" "${folding[@]}"
  fi
  if [ "$DRY_RUN" != 1 ]; then echo "$stamp" >"$RESULTS/$SPLIT.score.done"; fi
}

recipe_main() {
  local stage
  : "${DRY_RUN:=0}" "${ARCH:=lstm_adm}" "${SEED:=1}" "${DATA:=}" "${SPLIT:=test}" "${DEVICE:=auto}" "${CUT:=0}"
  : "${LOWERCASE:=0}" "${GENERATE_OPTIONS:=}" "${OUT:=$ROOT/out/$RECIPE}"
  : "${LONGEST:=0}" "${OBJECTIVE:=}" "${TOPK:=}" "${EPOCH_UPDATES:=1000}"
  : "${ATTENTION:=}" "${BIAS:=}" "${TEACHER:=}" "${CORPUS_TAG:=}"
  : "${JOBS:=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)}"
  parse_arguments "$@"
  check_settings
  check_recipe
  choose_objective
  choose_attention
  case $OUT in /*) ;; *) OUT=$PWD/$OUT ;; esac
  BPE_TAG=$BPE
  if [ "$BPE" != none ]; then BPE_TAG=$BPE$BPE_SIZE; fi
  WORK=$OUT/$SRC-$TGT.${CORPUS_TAG:+$CORPUS_TAG.}$BPE_TAG
  RUN=$WORK/$ARCH${ATTENTION:+.$ATTENTION}${BIAS:+.$BIAS}${OBJECTIVE:+.$OBJECTIVE}${TEACHER:+.guided}.seed$SEED
  RESULTS=$RUN${TOPK:+/top$TOPK} # of translating
  DICTIONARIES=("dict.$SRC.txt" "dict.$TGT.txt")
  LANGUAGE_OPTIONS=(--source-lang "$SRC" --target-lang "$TGT")
  locate_tools
  for stage in "${STAGES[@]}"; do "stage_${stage//-/_}"; done
}
