"""Shows the progress in fairseq-train's JSON log, and keeps the log.

fairseq-train ... --log-format json 2>&1 | python -m fairseq_attn_plugin.own_data.progress LOG MAX_EPOCH

A line for each epoch. MAX_EPOCH 0 means no limit.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterable

__all__ = ["follow", "parse"]


def parse(line: str) -> Dict[str, Any]:
    """The entry of a log line; empty if the line has none."""
    _, brace, rest = line.partition(" | {")
    try:
        return dict(json.loads("{" + rest)) if brace else {}
    except ValueError:  # fairseq also prints its configuration, which begins like an entry
        return {}


def follow(lines: Iterable[str], log: Path, max_epoch: int) -> None:
    """Appends the lines to the file ``log``, and prints a line for each epoch until they end."""
    start, valid = time.monotonic(), "-"
    with open(log, "a", encoding="utf-8") as stream:
        for line in lines:
            stream.write(line)
            stream.flush()
            entry = parse(line)
            valid = entry.get("valid_ppl", valid)
            if "train_ppl" in entry:
                epoch = f"{entry['epoch']:.0f}" + (f"/{max_epoch}" if max_epoch else "")
                ppl, seconds = f"train ppl {entry['train_ppl']}   valid ppl {valid}", time.monotonic() - start
                print(f"   epoch {epoch:6} {ppl}   {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    # fairseq-train handles interrupts; this program reads until the pipe ends
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    follow(sys.stdin, Path(sys.argv[1]), int(sys.argv[2]))
