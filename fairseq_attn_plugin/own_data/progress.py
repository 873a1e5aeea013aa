"""Shows the progress in fairseq-train's JSON log, and keeps the log.

fairseq-train ... --log-format json 2>&1 | python -m fairseq_attn_plugin.own_data.progress LOG MAX_EPOCH

A terminal shows a progress bar with the time left until the last epoch, other outputs a line per epoch. MAX_EPOCH 0
means no limit.
"""

import json
import signal
import sys
import time
from pathlib import Path
from typing import Dict, Iterable

from tqdm import tqdm

NAMES = {"ppl": "train ppl", "train_ppl": "train ppl", "valid_ppl": "valid ppl"}


def follow(lines: Iterable[str], log: Path, max_epoch: int) -> None:
    """Appends the lines to the file ``log``, and shows their progress until they end."""
    start, begun = time.monotonic(), False
    perplexities: Dict[str, str] = {}
    layout = "   {percentage:3.0f}% {bar:24} epoch {n:.1f}/{total:.0f} [{elapsed}<{remaining}]{postfix}"
    bar = tqdm(
        total=max_epoch or None,
        bar_format=layout if max_epoch else "   epoch {n:.1f} [{elapsed}]{postfix}",
        disable=not sys.stderr.isatty(),
    )
    with open(log, "a", encoding="utf-8") as stream, bar:
        for line in lines:
            stream.write(line)
            stream.flush()
            try:
                entry = json.loads("{" + line.partition(" | {")[2])
            except ValueError:  # fairseq also prints its configuration, which begins like an entry
                continue
            perplexities.update((NAMES[key], value) for key, value in entry.items() if key in NAMES)
            shown = "   ".join(f"{name} {value}" for name, value in perplexities.items())
            progress = float(entry.get("update", entry.get("epoch", 0)))
            if not begun:  # a training that continues does not begin at 0
                begun, bar.initial = True, progress if progress > 1 else 0
            bar.n = max(bar.n, progress)
            bar.set_postfix_str(shown)
            if "train_ppl" in entry and bar.disable:
                epoch = f"{entry['epoch']:.0f}" + (f"/{max_epoch}" if max_epoch else "")
                print(f"   epoch {epoch:6} {shown}   {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    # fairseq-train handles interrupts; this program reads until the pipe ends
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    follow(sys.stdin, Path(sys.argv[1]), int(sys.argv[2]))
