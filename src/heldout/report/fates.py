"""What became of a proposal, in one word, and why one never came to a gate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

from heldout.report.numbers import net
from heldout.report.rounds import AgentRound
from heldout.report.skill_rounds import SkillRound
from heldout.report.training_rounds import TrainingRound
from heldout.store.agent_events import Screened, Submitted

__all__ = ["Fate", "Told", "fates_of_attempts", "fates_of_edits", "fates_of_rounds"]


class Fate(StrEnum):
    """What became of a proposal."""

    START = "start"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    """The best of its generation, refused by the gate."""
    OUTSCORED = "outscored"
    """Another candidate of its generation was taken to the gate."""
    UNDECIDED = "undecided"
    DUPLICATE = "duplicate"
    INVALID = "invalid"
    PENDING = "pending"
    """Not decided yet, or never, because the run stopped."""


Told = tuple[Fate, str]
"""A fate and its reason."""


def fates_of_rounds(rounds: Iterable[AgentRound]) -> Mapping[tuple[int, int], Told]:
    """(generation, index) of each proposal that no gate was shown, to what became of it.

    An index is an episode; a winner that was repaired and measured has the index after the last episode's.
    """
    return {(one.number, index): told for one in rounds for index, told in _fates(one)}


_OF_EDITS: Mapping[str, Fate] = {
    "accepted": Fate.ACCEPTED,
    "rejected": Fate.REJECTED,
    "undecided": Fate.UNDECIDED,
    "to be confirmed": Fate.UNDECIDED,
    "outscored": Fate.OUTSCORED,
    "refused": Fate.INVALID,
    "no answer": Fate.INVALID,
}


def fates_of_edits(rounds: Iterable[SkillRound]) -> Mapping[tuple[int, int], Told]:
    """(generation, index) of each edit of a guide or a skill to what became of it; refused ones were never run."""
    found = {}
    for one in rounds:
        decided = "no decision was made on it" if one.decided is None else one.decided.decision.reason
        for edit in (edit for edit in one.edits if edit.edited is not None):
            place = (one.number, edit.edited.index if edit.edited else 0)
            found[place] = (_OF_EDITS.get(edit.fate, Fate.PENDING), edit.why_not_run or decided)
    return found


_OF_ATTEMPTS: Mapping[str, Fate] = {
    "accepted": Fate.ACCEPTED,
    "rejected": Fate.REJECTED,
    "undecided": Fate.UNDECIDED,
}


def fates_of_attempts(rounds: Iterable[TrainingRound]) -> Mapping[tuple[int, int], Told]:
    """(round, repeat) of each trained child to what became of it; a second seed is weighed by no gate."""
    found = {}
    for one in rounds:
        found[one.number, 0] = (_OF_ATTEMPTS.get(one.status, Fate.PENDING), one.reason)
        found[one.number, 1] = (
            Fate.PENDING,
            "the same recipe with another seed: it measures the noise of training, and competes in the final selection",
        )
    return found


def _fates(one: AgentRound) -> Iterator[tuple[int, Told]]:
    screened = one.screened
    if screened is None:
        return
    own = {submission.episode: submission for submission in one.submissions if not submission.attempt}
    for episode, submission in own.items():
        if submission.fault:
            yield episode, (Fate.INVALID, submission.fault)
        elif screened.winner != episode:
            yield episode, _lost(screened, episode)
        elif one.flips is None or one.flips.candidate != submission.digest:
            yield episode, _failed(one, submission)


def _lost(screened: Screened, episode: int) -> Told:
    if screened.disqualified[episode]:
        return Fate.DUPLICATE, f"left out of the screen: {screened.disqualified[episode]}"
    if screened.winner is None:
        return Fate.PENDING, "nothing of this round was screened"
    own, best = (screened.fixed[one] - screened.broken[one] for one in (episode, screened.winner))
    told = f"net {net(own)} on the screen; candidate {screened.winner + 1} went on with {net(best)}"
    flips = screened.confirmed[screened.winner] - screened.confirmed[episode]
    if own == best:
        told += ", which has more confirmed probe flips" if flips > 0 else ", which came first"
    return Fate.OUTSCORED, told


def _failed(one: AgentRound, submission: Submitted) -> Told:
    """The winner of a screen that was not what the gate was shown."""
    refused = [found for found in one.smoked if found.check and found.candidate == submission.digest]
    if refused:
        return Fate.INVALID, f"refused by the mechanical checks: {refused[0].check}: {refused[0].fault}"
    if one.last is not None and one.last.attempt > submission.attempt:
        return Fate.DUPLICATE, "these edits were tried before; the improver was asked for others"
    return Fate.PENDING, "no decision was made on it"
