"""Shows the progress in fairseq-train's JSON log, and keeps the log.

fairseq-train ... --log-format json 2>&1 | python -m fairseq_attn_plugin.own_data.progress LOG MAX_EPOCH

A terminal shows a progress bar with the time left until the last epoch, other outputs a line per epoch. MAX_EPOCH 0
means no limit.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterable

from tqdm import tqdm

__all__ = ["follow", "parse"]


def parse(line: str) -> Dict[str, Any]:
    """The entry of a log line; empty if the line has none."""
    _, brace, rest = line.partition(" | {")
    try:
        return dict(json.loads("{" + rest)) if brace else {}
    except ValueError:  # fairseq also prints its configuration, which begins like an entry
        return {}


def follow(lines: Iterable[str], log: Path, max_epoch: int) -> None:
    """Appends the lines to the file ``log``, and shows their progress until they end."""
    start, shown, done = time.monotonic(), "", -1.0
    layout = "   {percentage:3.0f}% {bar:24} epoch {n:.1f}/{total:.0f} [{elapsed}<{remaining}]{postfix}"
    bar = tqdm(
        total=max_epoch or None,
        bar_format=layout if max_epoch else "   epoch {n:.1f} [{elapsed}]{postfix}",
        disable=not sys.stderr.isatty(),
    )
    perplexities: Dict[str, str] = {}
    with open(log, "a", encoding="utf-8") as stream, bar:
        for line in lines:
            stream.write(line)
            stream.flush()
            entry = parse(line)
            if not entry:
                continue
            for key, name in (("ppl", "train ppl"), ("train_ppl", "train ppl"), ("valid_ppl", "valid ppl")):
                if key in entry:
                    perplexities[name] = entry[key]
            shown = "   ".join(f"{name} {value}" for name, value in perplexities.items())
            bar.set_postfix_str(shown, refresh=False)
            progress = float(entry.get("update", entry.get("epoch", 0)))
            if done < 0:  # a training that continues does not begin at 0
                bar.initial = bar.n = done = progress if progress > 1 else 0
            bar.update(max(0.0, progress - done))
            done = max(done, progress)
            if "train_ppl" in entry and bar.disable:
                epoch = f"{entry['epoch']:.0f}" + (f"/{max_epoch}" if max_epoch else "")
                print(f"   epoch {epoch:6} {shown}   {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    # fairseq-train handles interrupts; this program reads until the pipe ends
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    follow(sys.stdin, Path(sys.argv[1]), int(sys.argv[2]))
