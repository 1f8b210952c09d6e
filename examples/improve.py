"""Improve the prompt for your own tasks, from Python: `python examples/improve.py [FOLDER OF THE RUN]`."""

from __future__ import annotations

import sys
from pathlib import Path

from heldout.errors import HeldoutError
from heldout.workbench import improve

TASKS = Path(__file__).parent / "own_tasks" / "tasks.jsonl"

SETTINGS = {
    "tasks": {
        "source": "jsonl",
        "path": str(TASKS),
        "grader": "own_tasks.grader:grade",
        "options": {"instruction": "Write the time in the sentence as HH:MM on the 24-hour clock."},
        "train": 40,
        "select": 40,
        "audit": 70,
    },
    # Your own: {"name": "openai:qwen2.5:7b", "url": "http://127.0.0.1:11434/v1"}
    "solver": {"model": {"name": "simulated"}},
    "search": {"generations": 5, "candidates": 4},
    "budget": {"evaluations": 1500},
}


def main(out: str) -> None:
    found = improve(SETTINGS, out=out, command="examples/improve.py")
    if found.started.simulated:
        print("SIMULATION: no language model was used.")
    if found.gains.believed is not None:
        print(f"believed {100 * found.gains.believed:+.1f} points on the tasks that the loop chose by")
    if found.audit is not None:
        print(f"audited: {found.audit.sentence}")
    print(f"report: {out}/report.html")


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else "runs/improve")
    except HeldoutError as error:
        sys.exit(f"heldout: {error}")
