#!/usr/bin/env bash
# Tatoeba sentence pairs of manythings.org/anki (CC BY 2.0): English with another language, as Spanish (119K).
#
#   bash scripts/recipes/tatoeba.sh [prepare|train|generate|score|all] [--dry-run] [-- fairseq-train options]
#
# Environment variables (default):
#   PAIR       name of a pair there: spa-eng, vie-eng, deu-eng, ... (spa-eng)
#   FILE       name of the file (spa.txt, deu.txt, ...)
#   SRC, TGT   en and the other language, in either order (en, the other; needed for pairs but spa-eng and vie-eng)
#   ARCH       lstm_soft, lstm_adm, lstm_adm_aqt, or lstm: stock fairseq's in the same sizes (lstm_adm)
#   ATTENTION  --attention instead of the architecture's own: structured, sigmoid, local-m, local-p, ... (its own)
#   BIAS       --attention-bias: position, markov, fertility, or several with commas between them (none)
#   TEACHER    checkpoint of a trained model whose alignments guide the attention (none)
#   OUT        folder for all files (out/tatoeba-PAIR of the checkout)
#   DATA       folder with FILE (or FILE.gz), instead of a download from manythings.org
#   SEED       (1)
#   BPE        subword-nmt, sentencepiece or none, joint over both languages (subword-nmt)
#   BPE_SIZE   merges, or pieces of sentencepiece (8000)
#   SPLIT      the split of generate and score, test or valid (test)
#   DEVICE     auto, cpu or cuda (auto: CUDA if torch sees a device)
#   JOBS       processes for the preparation (all cores)
#   GENERATE_OPTIONS more options for fairseq-generate
#   DRY_RUN    1: show the commands and run none (0)
#   CORPUS_URL a mirror of the zip files
#
# The file has no splits of its own. A fixed hash makes splits of about 90 / 5 / 5 % in which no sentence of either side
# occurs in two splits: see the module fairseq_attn_plugin.recipes.text.pair_splits. The file grows from year to year;
# scores are comparable only for the same file. Text: Moses-tokenised, case kept.
# Scores: BLEU of the tokenised text (sacreBLEU, --tokenize none) and of the detokenised text against the original
# references. Finished stages do not run again; an interrupted training continues.
exec bash "$(dirname "${BASH_SOURCE[0]}")/_run.sh" tatoeba "$@"
