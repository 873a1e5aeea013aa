"""``fairseq-attn election``: how far from its own position a target word attends, and which window fits.

    fairseq-attn election DATA --path CHECKPOINT --out election.json
    fairseq-attn election DATA --agent words.json [--embeddings FILE]

The reference translations of a split are forced, and every target word votes for the words of its source sentence by
the teacher's attention. :mod:`fairseq_attn_plugin.analysis.voting.ballots` defines rules, centres and satisfaction.
``--out`` is the input of ``--gaussian-election``; :mod:`fairseq_attn_plugin.analysis.voting.election` lists its fields.
Words are the tokens of the data: subwords, if the data have them.

With ``--agent`` no vote is held. An agent learns by Q-learning which source words belong to a target word, and the
table is written for ``--election-table``: :mod:`fairseq_attn_plugin.analysis.voting.word_table`.
"""

import argparse
from typing import Any

from fairseq_attn_plugin.analysis.inference.loading import load_from_options
from fairseq_attn_plugin.analysis.inference.model_options import add_model_options, add_overrides_option
from fairseq_attn_plugin.analysis.voting.ballots import Tally
from fairseq_attn_plugin.analysis.voting.election import describe, hold_election, length_ratio, report
from fairseq_attn_plugin.analysis.voting.word_table import add_agent_options, write_table
from fairseq_attn_plugin.attention.positional.windows import RULES
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import at_least, check_unread
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.writing import check_output, write_json


class _Agent(argparse.Action):
    """Stores the file; a model folder is then its corpus alone, whose vectors are made from the training pairs."""

    def __call__(self, parser, namespace, path, option_string=None):  # type: ignore[no-untyped-def, override]
        namespace.agent, namespace.takes_model = path, False


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", help="folder that fairseq-preprocess wrote, model folder, or checkpoint")
    add_model_options(parser)
    _add_vote_options(parser)
    agent = parser.add_argument_group("the table of --attention election", "instead of a vote")
    agent.add_argument(
        "--agent", action=_Agent, metavar="FILE", help="JSON file to write, learned by Q-learning, for --election-table"
    )
    add_agent_options(agent)


def _add_vote_options(parser: Any) -> None:
    parser.add_argument("--gen-subset", default="valid", metavar="SPLIT", help="sentences that vote (default: valid)")
    parser.add_argument(
        "--rules",
        default=",".join(RULES),
        metavar="RULES",
        help=f"window sizes, separated by commas: {', '.join(RULES)}, or numbers (default: %(default)s)",
    )
    parser.add_argument("--out", metavar="FILE", help="JSON file to write, for --gaussian-election")
    parser.add_argument("--max-tokens", type=int, default=4000, metavar="N", help="words in a batch (default: 4000)")


def run(args: argparse.Namespace) -> None:
    for option in ("out", "agent"):
        check_output(f"--{option}", getattr(args, option), [*(args.path or "").split(":"), *(args.embeddings or ())])
    if args.agent is not None:
        check_unread(args, "excludes --agent; leave one out", _add_vote_options, add_overrides_option)
        if args.path is not None:
            raise OptionError(f"--path {args.path}: excludes --agent; leave one out")
        return write_table(args)
    check_unread(args, "needs --agent FILE", add_agent_options)
    at_least(args, max_tokens=1)
    rules = [rule.strip() for rule in args.rules.split(",") if rule.strip()]
    Tally(rules)  # raises OptionError for an unknown rule

    loaded = load_from_options(args)
    ratio = length_ratio(loaded)
    outcome = hold_election(loaded, args.gen_subset, rules, ratio, args.max_tokens)
    source, target = loaded.languages
    print(
        f"{source}-{target} {args.gen_subset}: {counted(outcome.voters, 'voter')} in "
        f"{counted(outcome.sentences, 'sentence')}"
        + (f" ({outcome.left_out} left out: empty, or longer than the teacher accepts)" if outcome.left_out else "")
        + f"; {ratio:.4g} target words per source word (measured on train); {100 * outcome.end_of_sentence:.1f} % of "
        "the attention is on the end of the source and does not vote"
    )
    print(report(outcome))
    if args.out:
        write_json("--out", args.out, describe(outcome, loaded, args.gen_subset, ratio))
