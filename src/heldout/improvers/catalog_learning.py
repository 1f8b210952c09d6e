"""How a round moves the catalogue improver's counts, policy and guidance: pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from heldout.improvers.beliefs import Beliefs
from heldout.improvers.catalog_notes import read_note
from heldout.improvers.catalog_trials import passed_plain_run
from heldout.improvers.guidance import join_blocks
from heldout.improvers.policy import Policy
from heldout.records import EditProposal, Evidence, EvidenceVerdict, ProbeKind

__all__ = ["Ground", "Learned", "count_evidence", "count_plain_runs", "count_readings", "next_guidance", "next_policy"]

_SEARCHES = 2
"""More units that an episode gets after a round in which no draft was supported."""


@dataclass(frozen=True, slots=True)
class Learned:
    """The two tables of `notes.md`."""

    classes: Beliefs
    """By signature and class of edits."""
    edits: Beliefs
    """By signature and entry of the catalogue."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What verdicts are counted against."""

    signature_of: Mapping[str, str]
    """Failing train task to its signature; a task that is missing here teaches nothing."""
    class_of: Mapping[str, str]
    """Entry of the catalogue to its class."""
    tried: Mapping[str, tuple[str, ...]]
    """Evidence id to the entries of the draft that it tested."""
    commission: frozenset[str]
    """Classes for mistakes of commission, which a supported ablation speaks for."""

    def signatures(self, tasks: Iterable[str]) -> tuple[str, ...]:
        """Of these tasks, each once."""
        return tuple(dict.fromkeys(self.signature_of[task] for task in tasks if task in self.signature_of))

    def classes(self, names: Iterable[str]) -> tuple[str, ...]:
        """Of these entries, each once."""
        return tuple(dict.fromkeys(self.class_of[name] for name in names if name in self.class_of))


def count_evidence(learned: Learned, evidence: Iterable[Evidence], ground: Ground) -> Learned:
    """The counts after these verdicts. Each probe counts once for a signature: +1 success of class and entry for
    *supports* (on the tasks that it mended), +1 failure for *refutes* (on the tasks that it was tried on)."""
    for one in evidence:
        names = ground.tried.get(one.id, ())
        if one.refused:
            continue
        if one.kind is ProbeKind.FIX_PROBE and one.verdict is EvidenceVerdict.SUPPORTS:
            learned = _counted(learned, ground, one.flips, names, helped=True)
        elif one.kind is ProbeKind.FIX_PROBE and one.verdict is EvidenceVerdict.REFUTES:
            learned = _counted(learned, ground, one.tasks, names, helped=False)
        elif one.kind is ProbeKind.ABLATE and one.verdict is EvidenceVerdict.SUPPORTS:
            learned = _blamed(learned, ground, one)
    return learned


def count_plain_runs(learned: Learned, evidence: Iterable[Evidence], ground: Ground) -> Learned:
    """The counts after runs without a verdict, taken at their word: a draft that passed once has helped, one that
    passed nowhere has not."""
    drafts: dict[tuple[int, tuple[str, ...]], list[Evidence]] = {}
    for one in evidence:
        if one.id in ground.tried and passed_plain_run(one) is not None:
            drafts.setdefault((one.episode, ground.tried[one.id]), []).append(one)
    for (_, names), runs in drafts.items():
        passed = [task for one in runs for task in one.passed]
        tasks = passed or [task for one in runs for task in one.tasks]
        learned = _counted(learned, ground, tasks, names, helped=bool(passed))
    return learned


def count_readings(learned: Learned, kept: EditProposal, ground: Ground) -> Learned:
    """The counts after an edit that was kept and never tested: each of its diagnoses counts as a success."""
    tasks = [claim.task for claim in kept.claims]
    return _counted(learned, ground, tasks, read_note(kept.note).submitted, helped=True)


def next_policy(policy: Policy, label: str, evidence: Sequence[Evidence]) -> Policy:
    """Smaller edits and one more canary after harm, larger ones after plain success, more probes where no draft of
    the round was supported."""
    if label in ("HARMFUL", "MIXED"):
        policy = policy.changed(edit_size=-1, canaries=1)
    elif label == "EFFECTIVE":
        policy = policy.changed(edit_size=1, canaries=-1)
    drafts = [one for one in evidence if one.kind is ProbeKind.FIX_PROBE and not one.refused]
    if drafts and not any(one.verdict is EvidenceVerdict.SUPPORTS for one in drafts):
        policy = policy.changed(probes=_SEARCHES)
    return policy


def next_guidance(learned: Learned, failing: Mapping[str, int], classes: Sequence[str]) -> str | None:
    """`search.md` for the next round: the two classes that promise most for the failures that are left, then what was
    tried least. None where nothing was counted yet. `failing` is the number of failing tasks by signature."""
    counts = {name: _totals(learned.classes, name) for name in classes}
    if not any(tried for _, tried in counts.values()):
        return None
    promise = {
        name: sum(number * learned.classes.mean(failure, name) for failure, number in failing.items())
        for name in classes
    }
    first = sorted(classes, key=lambda name: (-promise[name], name))[:2]
    rest = [name for name in classes if name not in first] or list(classes)
    least = min(counts[name][1] for name in rest)
    return join_blocks([*(_focus(name, *counts[name]) for name in first), _open(rest, counts, least)])


def _counted(learned: Learned, ground: Ground, tasks: Iterable[str], names: Iterable[str], *, helped: bool) -> Learned:
    classes, edits, entries = learned.classes, learned.edits, tuple(names)
    for failure in ground.signatures(tasks):
        for name in ground.classes(entries):
            classes = classes.helped(failure, name) if helped else classes.did_not(failure, name)
        for name in entries:
            edits = edits.helped(failure, name) if helped else edits.did_not(failure, name)
    return Learned(classes, edits)


def _blamed(learned: Learned, ground: Ground, one: Evidence) -> Learned:
    classes = learned.classes
    for failure in ground.signatures(one.tasks):
        for name in sorted(ground.commission):
            classes = classes.helped(failure, name)
    return Learned(classes, learned.edits)


def _totals(beliefs: Beliefs, remedy: str) -> tuple[int, int]:
    """Successes and trials of a class over all signatures."""
    pairs = [counts for (_, name), counts in beliefs.counts.items() if name == remedy]
    helped = sum(a - 1 for a, _ in pairs)
    return helped, helped + sum(b - 1 for _, b in pairs)


def _focus(edit_class: str, helped: int, tried: int) -> str:
    return (
        f"Look first for failures that an edit of the class `{edit_class}` would mend: {helped} of {tried} counted "
        f"trials of it helped.\n\nFocus: {edit_class}"
    )


def _open(classes: Iterable[str], counts: Mapping[str, tuple[int, int]], least: int) -> str:
    named = sorted(name for name in classes if counts[name][1] == least)
    return f"Look where the least was tried so far.\n\nFocus: {', '.join(named)}"
