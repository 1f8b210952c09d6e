"""What an attempt cost, added up from the journal: research, building, preflight, training and evaluation."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from heldout.loops.trainings import stopped_key
from heldout.loops.weights.state import WeightsSearch
from heldout.records import Spend
from heldout.store.events import CandidateAdded
from heldout.store.training_events import DatasetBuilt, Diagnosed, Preflighted, StrategiesWeighed, TrainingEnded

__all__ = ["attempt_spend", "noise_spend"]


def attempt_spend(search: WeightsSearch, number: int) -> Spend:
    """Of round `number`. A model's diagnosis is charged to the first round that makes it."""
    recorder = search.session.recorder
    preflights = [one for one in recorder.every("preflight", Preflighted) if one.round == number]
    steps: list[Spend] = [
        *(one.spend for one in recorder.every("diagnosis", Diagnosed) if one.round == number),
        *(one.spend for one in recorder.every("strategies", StrategiesWeighed) if one.round == number),
        *(one.spend for one in recorder.every("dataset", DatasetBuilt) if one.round == number),
        *(one.spend for one in preflights),
        *(one.spend for one in recorder.every("training", TrainingEnded) if one.round == number),
    ]
    children = {one.digest for one in recorder.every("candidate", CandidateAdded) if one.generation == number}
    steps += _outcomes(search, search.options.decide_on, children)
    steps += _outcomes(search, search.options.retain.role, children)
    steps += _outcomes(search, "preflight", {one.answered_by for one in preflights})
    steps += _outcomes(search, "train", _first_diagnosed(search, number) - _decided_on_train(search))
    steps += _stopped(search, number)
    return sum(steps, start=Spend())


def noise_spend(search: WeightsSearch, number: int) -> Spend:
    """The part of it that the recipe's second training cost, and measuring its child."""
    recorder = search.session.recorder
    trained = [one for one in recorder.every("training", TrainingEnded) if one.round == number and one.repeat > 0]
    added = recorder.every("candidate", CandidateAdded)
    children = {one.digest for one in added if one.generation == number and one.index > 0}
    measured = _outcomes(search, search.options.decide_on, children)
    return sum((*(one.spend for one in trained), *measured, *_stopped_repeats(search, number)), start=Spend())


def _first_diagnosed(search: WeightsSearch, number: int) -> set[str]:
    diagnoses = search.session.recorder.every("diagnosis", Diagnosed)
    before = {one.head for one in diagnoses if one.round < number}
    return {one.head for one in diagnoses if one.round == number} - before


def _decided_on_train(search: WeightsSearch) -> set[str]:
    """Children whose train sweep decided, and is a cost of their own round."""
    if search.options.decide_on != "train":
        return set()
    return {one.digest for one in search.session.recorder.every("candidate", CandidateAdded) if one.generation > 0}


def _stopped(search: WeightsSearch, number: int) -> Iterable[Spend]:
    """Trainings, and a researcher's answer, that ended without an event of their own."""
    prefixes = (
        _trainings(number, "preflight"),
        _trainings(number, "training"),
        stopped_key("research", f"round-{number}"),
    )
    return [one.spend for key, one in search.session.recorder.prepared.items() if key.startswith(prefixes)]


def _stopped_repeats(search: WeightsSearch, number: int) -> Iterable[Spend]:
    """Those of them that were of a recipe's second training; the key names attempt and repeat after the round."""
    prefix = _trainings(number, "training")
    for key, one in search.session.recorder.prepared.items():
        if key.startswith(prefix) and key.removeprefix(prefix).split("/")[0].split("-")[-1] != "0":
            yield one.spend


def _trainings(number: int, purpose: str) -> str:
    """How the keys of a round's stopped trainings begin."""
    return stopped_key(purpose, f"round-{number}-").removesuffix("/")


def _outcomes(search: WeightsSearch, purpose: str, candidates: Collection[str]) -> Iterable[Spend]:
    known = list(search.session.engine.recorded.values())
    return [one.spend for one in known if one.purpose == purpose and one.candidate in candidates]
