#!/usr/bin/env bash
# The leaderboard: systems x seeds x directions on one corpus, by a queue of processes, and a page with the table.
#
#   bash scripts/recipes/leaderboard.sh [prepare|run|report|all] [--dry-run] [-- fairseq-train options of all systems]
#
# Stages, in this order; all is the default:
#   prepare    prepares the corpus for all directions
#   run        trains, translates and scores; each finished run is a JSON in RESULTS
#   report     writes OUT/report/report.md and report.html, from all JSON files in RESULTS
#
# Environment variables (default):
#   DATASET    recipe of the corpus: multi30k, tatoeba or another one of translation (multi30k)
#   PAIRS      directions, as in "de-en en-de" (that of the recipe)
#   SYSTEMS    names ("lstm_soft lstm_adm lstm lstm_adm_aqt structured lstm_soft_additive")
#   SYSTEMS_FILE   YAML file with more systems; a line is NAME: ARCH=lstm_soft --option value (none)
#   SEEDS      ("1 2 3")
#   PROCESSES  runs at a time, each with one thread; 0: one after the other, in this process (1)
#   RESULTS    folder for the JSON files (benchmarks/results/leaderboard of the checkout)
#   OUT        folder for all other files (out/leaderboard of the checkout)
#   MAX_TOKENS tokens of a batch (1000)
#   MAX_EPOCH  longest training, in epochs (25)
#   PATIENCE   epochs without a better validation, after which a training stops; 0: none (3)
#   DATA       folder with the corpus, instead of a download
#   PAIR       of the recipe tatoeba (its own)
#   BPE        subword-nmt, sentencepiece or none (that of the recipe)
#   BPE_SIZE   merges, or pieces of sentencepiece (that of the recipe or system)
#   SPLIT      the split that is translated and scored, test or valid (test)
#   DEVICE     auto, cpu or cuda (auto: CUDA if torch sees a device)
#   JOBS       processes for the preparation (all cores)
#   GENERATE_OPTIONS more options for fairseq-generate
#   DRY_RUN    1: show the commands and run none (0)
#   CORPUS_URL a mirror of the corpus
#
# The systems are in fairseq_attn_plugin/recipes/leaderboard/systems.yaml: 256 units, the recipe's subwords; small-*:
# 128 units, BPE of 2,000 merges. All other settings are those of the recipe of the corpus.
# The same command continues after an interruption of any kind: finished runs do not run again, an interrupted training
# goes on from its last checkpoint. Several queues may work on the same folders; none runs a job of another. A run that
# fails does not stop the others; its log is OUT/DATASET/.../SYSTEM.seedSEED/job.log.
exec bash "$(dirname "${BASH_SOURCE[0]}")/_run.sh" leaderboard "$@"
