"""Improve the harness of an agent, from Python: `python examples/improve_agent.py [FOLDER OF THE RUN]`.

A simulated coder mends small generated packages in a real sandbox (bubblewrap, see `heldout doctor`), and a simulated
improver edits its harness. The sizes are so small that the audit decides nothing: take them out, and the preset's hold.
"""

from __future__ import annotations

import sys

from heldout.errors import HeldoutError
from heldout.workbench import improve

SETTINGS = {
    "loop": "verse",
    "preset": "small",
    "tasks": {
        "source": "repair",
        "train": 8,
        "select": 6,
        "audit": 10,
        "reports": {"ood": 4},
        "options": {"count": 64, "ood": 8},
    },
    # An agent of your own: {"harness": "tool_loop", "model": {"name": "openai:MODEL", "url": …, "max_tokens": 2048}};
    # its improver: {"kind": "llm", "model": {…}}. See verse_llm.toml for both, and own_agent_tasks for tasks.
    "solver": {"model": {"name": "simulated_coder"}},
    "improver": {"kind": "catalog"},
    "search": {"generations": 1, "candidates": 1},
    "noise": {"tasks": 6},
    "options": {"probe": {"units": 3}, "attribute": {"failures": 2, "successes": 0}, "screen": {"tasks": 4}},
    "budget": {"evaluations": 400},
}


def main(out: str) -> None:
    found = improve(SETTINGS, out=out, command="examples/improve_agent.py")
    if found.started.simulated:
        print("SIMULATION: no language model was used.")
    for one in found.agents.rounds if found.agents else ():
        print(f"round {one.number}: {', '.join(one.paths) or 'no edit'}: {one.verdict} {one.label}".rstrip())
    for result in (found.audit, *found.reports):
        if result is not None:
            print(f"{result.role}: {result.sentence}")
    print(f"report: {out}/report.html")
    print(f"the harness, as plain files: heldout export {out} --to folder --out harness")


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else "runs/improve_agent")
    except HeldoutError as error:
        sys.exit(f"heldout: {error}")
