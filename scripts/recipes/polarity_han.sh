#!/usr/bin/env bash
# Polarity 2.0 (Pang and Lee 2004): 2,000 film reviews, positive or negative, in ten folds. For research use.
#
#   fairseq-attn recipe polarity_han [prepare] [options of fairseq-train]
#
# Variables (default): FOLDS, test folds of 0 to 9 (0 1 2); ARCH, any of han, han_flat and han_mean (all); SEED (1);
# OUT, folder for all files (out/polarity_han); DATA, folder with review_polarity.tar.gz or polarity.jsonl in place of a
# download; DEVICE, cpu or auto (auto: a GPU if there is one).
# Review cvNNN is in fold NNN / 100. Fold K is the test set, fold K + 1 (after 9: 0) the validation set, whose accuracy
# chooses the epoch; the other 1,600 reviews train, also TF-IDF with logistic regression, the baseline.
# A second call continues: what is there is not made again. With prepare, it ends before the training.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
command -v fairseq-attn >/dev/null || PATH=$ROOT/.venv/bin:$PATH # the environment of the checkout

FOLDS=${FOLDS:-0 1 2} ARCH=${ARCH:-han han_flat han_mean} SEED=${SEED:-1} DEVICE=${DEVICE:-auto} DATA=${DATA:-}
OUT=${OUT:-out/polarity_han} CPU=${DEVICE#auto}
[[ $DEVICE =~ ^(auto|cpu)$ ]] || { echo "polarity_han: DEVICE=$DEVICE: must be auto or cpu" >&2 && exit 1; }

for FOLD in $FOLDS; do
  DIR=$OUT/fold$FOLD
  BIN=$DIR/data/bin TEXT=$DIR/data/text
  fairseq-attn prepare polarity_han --fold "$FOLD" --out "$DIR/data" \
    --downloads "$OUT/downloads" ${DATA:+--data "$DATA"}
  if [ ! -d "$BIN" ]; then
    trap 'rm -rf "$OUT"/fold*/data/bin.part.$$' EXIT
    # words that occur less than three times are unknown
    fairseq-preprocess --only-source --workers "$(getconf _NPROCESSORS_ONLN)" --trainpref "$TEXT/train.input0" \
      --validpref "$TEXT/valid.input0" --testpref "$TEXT/test.input0" --destdir "$BIN.part.$$/input0" --thresholdsrc 3
    fairseq-preprocess --only-source --workers "$(getconf _NPROCESSORS_ONLN)" --trainpref "$TEXT/train.label" \
      --validpref "$TEXT/valid.label" --testpref "$TEXT/test.label" --destdir "$BIN.part.$$/label"
    [ -d "$BIN" ] || mv "$BIN.part.$$" "$BIN"
  fi
  [ "${1:-}" != prepare ] || continue

  for MODEL in $ARCH; do
    RUN=$DIR/$MODEL.seed$SEED EPOCHS=10
    [ "$MODEL" != han_flat ] || EPOCHS=15 # it learns more slowly, in epochs that take a fifth of the time
    mkdir -p "$RUN"; exec 9>>"$RUN/lock"
    type -P flock >/dev/null && ! flock -n 9 && echo "$RUN: another process works there; wait" >&2 && exit 1
    [[ -e $RUN/checkpoint_last.pt && -e $RUN/options ]] || printf '%s\n' "$*" >"$RUN/options"
    [ "$(cat "$RUN/options")" = "$*" ] ||
      { echo "$RUN: has options '$(cat "$RUN/options")', not '$*': choose another SEED or remove it" >&2 && exit 1; }
    if [ ! "$RUN/trained" -nt "$BIN" ]; then
      fairseq-train "$BIN" --user-dir fairseq_attn_plugin --task document_classification --arch "$MODEL" \
        --criterion document_classification --word-embed-dim 100 --dropout 0.5 --optimizer adam --lr 1e-3 \
        --lr-scheduler fixed --force-anneal 6 --lr-shrink 0.5 --max-epoch "$EPOCHS" --clip-norm 5 --batch-size 16 \
        --required-batch-size-multiple 1 --num-workers 0 --best-checkpoint-metric accuracy \
        --maximize-best-checkpoint-metric --seed "$SEED" --save-dir "$RUN" --no-epoch-checkpoints \
        --log-file "$RUN/train.log" ${CPU:+--cpu} "$@"
      [ ! -e "$RUN/checkpoint_best.pt" ] || touch "$RUN/trained"
    fi
    if [ ! "$RUN/test.html" -nt "$RUN/trained" ]; then # classes, and the words with the greatest weights
      fairseq-attn classify "$BIN" --path "$RUN/checkpoint_best.pt" --gen-subset test --out "$RUN/test.jsonl" \
        --scores "$RUN/test.json" --plot "$RUN/test.html" ${CPU:+--cpu}
    fi
  done
  [ "$DIR/tfidf.seed$SEED/test.json" -nt "$BIN" ] ||
    python3 -m fairseq_attn_plugin.corpora.tfidf "$TEXT" --out "$DIR/tfidf.seed$SEED/test.json"
done

[ "${1:-}" = prepare ] || for MODEL in $ARCH tfidf; do # mean and standard deviation of all folds so far
  grep -ho '"accuracy": [0-9.]*' "$OUT"/fold*/"$MODEL.seed$SEED/test.json" | awk -v model="$MODEL" '
    { n++; sum += $2; squares += $2 * $2 }
    END { d = n > 1 ? (squares - sum * sum / n) / (n - 1) : 0
          printf "%-8s accuracy %.2f, standard deviation %.2f, %d folds\n", model, sum / n, sqrt(d > 0 ? d : 0), n }'
done
