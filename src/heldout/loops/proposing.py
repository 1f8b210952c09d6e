"""From an incumbent to the generation's candidates: failures on train, views, proposals."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator

import numpy as np

from heldout.errors import HeldoutError, ImproverError, ModelError, SetupError, boundary
from heldout.improvers import Failure, Improver, View
from heldout.loops.session import Session
from heldout.records import Candidate, Decision, Proposal, Spend, Verdict
from heldout.rollouts import Sweep
from heldout.store import fault_of_files
from heldout.store.events import CandidateAdded, GenerationStarted, Proposed

__all__ = ["draw_failures", "edit_size", "nothing_proposed", "propose", "step_seed"]

FAILURE_CHUNK = 8
"""Train tasks evaluated at a time while failures are looked for."""

PROMPT_ALLOWANCE = 2000
"""Bytes allowed for an improver's own wording when a proposal is reserved."""


def draw_failures(session: Session, incumbent: Candidate, generation: int) -> tuple[Failure, ...]:
    """Failures of the incumbent on train, in a seeded order, until there are enough or train is used up."""
    wanted = session.config.improver.failures
    order = np.random.default_rng([session.config.seed, generation]).permutation(len(session.tasks.train))
    failures: list[Failure] = []
    for begin in range(0, len(order), FAILURE_CHUNK):
        if len(failures) >= wanted:
            break
        chunk = [session.tasks.train[i] for i in order[begin : begin + FAILURE_CHUNK]]
        outcomes = session.engine.evaluate(Sweep(incumbent, chunk, "feedback"), grade=session.tasks.grade)
        failures += [
            Failure(task, outcome.answer)
            for task, outcome in zip(chunk, outcomes, strict=True)
            if outcome.score is not None and outcome.score < 0.5
        ]
    failures = failures[:wanted]
    shown = tuple(failure.task.id for failure in failures)
    started = GenerationStarted(generation=generation, incumbent=incumbent.digest, failures=shown)
    session.recorder.record("generation.started", started)
    return tuple(failures)


def propose(
    session: Session, incumbent: Candidate, failures: tuple[Failure, ...], *, generation: int, count: int
) -> Iterator[Candidate]:
    """The distinct valid candidates of a generation; invalid and repeated ones are recorded, not replaced."""
    for index in range(count):
        view = View(
            # A copy: an improver that edits it in place changes nobody's head.
            incumbent=Candidate(files=dict(incumbent.files), weights=incumbent.weights, parent=incumbent.parent),
            description=session.tasks.description,
            labels=session.tasks.labels,
            train=session.tasks.train,
            failures=failures,
            history=tuple(session.history),
            generation=generation,
            index=index,
            seed=step_seed(session.config.seed, generation, index),
        )
        step = session.recorder.find("proposal", f"{generation}/{index}", Proposed) or _ask_and_record(session, view)
        if step.digest is None or step.duplicate_of is not None or step.error is not None:
            continue
        candidate = session.store.load(step.digest).model_copy(update={"parent": incumbent.digest})
        added = CandidateAdded(
            digest=candidate.digest, parent=incumbent.digest, generation=generation, index=index, note=step.note
        )
        session.add_candidate(candidate, added)
        yield candidate


def nothing_proposed(session: Session, generations: Iterable[int]) -> Decision:
    """The decision where no new valid candidate came: undecided where that was the improver's model not answering."""
    asked = session.config.search.candidates
    steps = [
        session.recorder.find("proposal", f"{generation}/{index}", Proposed)
        for generation in generations
        for index in range(asked)
    ]
    unanswered = sum(step is not None and step.unanswered for step in steps)
    if unanswered:
        reason = f"no new valid candidate: the improver's model did not answer {unanswered} of {len(steps)} times"
        return Decision(gate=session.gate.name, verdict=Verdict.UNDECIDED, reason=reason)
    return Decision(gate=session.gate.name, verdict=Verdict.REJECT, reason="no new valid candidate")


def _ask_and_record(session: Session, view: View) -> Proposed:
    """Ask the improver. The folder is on disk before the event that names it."""
    proposal = _ask(session, view)
    candidate, error = _validated(session, view, proposal)
    digest = None if candidate is None else candidate.digest
    if candidate is not None and error is None:
        session.store.save(candidate)
    proposed = Proposed(
        generation=view.generation,
        index=view.index,
        digest=digest,
        note=proposal.note,
        error=error,
        duplicate_of=digest if digest is not None and session.known(digest) else None,
        unanswered=proposal.unanswered,
        spend=proposal.spend,
    )
    return session.recorder.record("proposal", proposed)


def _ask(session: Session, view: View) -> Proposal:
    """One paid question to the improver; what it cannot answer is a recorded, invalid proposal."""
    bound = session.ledger.price(session.improver_model, _bound(session, view))
    reservation = session.ledger.reserve("propose", bound)
    begun, cpu = time.perf_counter(), time.thread_time()
    try:
        with boundary(ImproverError, "the improver raised"):
            proposal = _improver(session).propose(view)
    except ModelError as error:
        proposal = Proposal(files=None, error=str(error), unanswered=True, spend=Spend(calls=error.calls))
    except ImproverError as error:
        proposal = Proposal(files=None, error=str(error))
    except HeldoutError:
        reservation.refund()
        raise
    if not isinstance(proposal, Proposal):
        what = "has nothing left to try" if proposal is None else f"returned {type(proposal).__name__}, not a Proposal"
        proposal = Proposal(files=None, error=f"the improver {what}")
    used = Spend(wall_s=time.perf_counter() - begun, cpu_s=time.thread_time() - cpu)
    spend = session.ledger.price(session.improver_model, proposal.spend + used)
    reservation.settle(spend)
    return proposal.model_copy(update={"spend": spend})


def _improver(session: Session) -> Improver:
    if session.improver is None:
        raise SetupError(f"improver.kind = {session.config.improver.kind!r} proposes no whole candidates")
    return session.improver


def _bound(session: Session, view: View) -> Spend:
    """What one proposal may cost at most: every byte of the view's texts a token, and the longest reply."""
    if not session.asks_model:
        return Spend()
    texts = [*view.incumbent.files.values(), view.description, *view.labels]
    texts += [failure.task.input + failure.task.reference + (failure.answer or "") for failure in view.failures]
    model = session.config.improver.model or session.config.solver.model
    tokens_in = sum(len(text.encode()) for text in texts) + PROMPT_ALLOWANCE
    return Spend(calls=1 + model.retries, tokens_in=tokens_in, tokens_out=model.max_tokens)


def _validated(session: Session, view: View, proposal: Proposal) -> tuple[Candidate | None, str | None]:
    if proposal.files is None:
        return None, proposal.error or "no proposal"
    fault = fault_of_files(proposal.files)
    if fault is not None:
        return None, f"the proposed folder is not usable: {fault}"
    candidate = Candidate(files=dict(proposal.files), parent=view.incumbent.digest)
    return candidate, proposal.error or session.check(candidate)


def step_seed(run_seed: int, generation: int, index: int) -> int:
    """Seed of one proposal (index from 0) or, with index −1, of the generation's decision."""
    text = f"{run_seed}\0{generation}\0{index}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=4).digest(), "big") & 0x7FFFFFFF


def edit_size(old: Candidate, new: Candidate) -> int:
    """Bytes that differ, old and new together, outside the common beginning and end of each file."""
    paths = old.files.keys() | new.files.keys()
    return sum(_changed_bytes(old.files.get(path, "").encode(), new.files.get(path, "").encode()) for path in paths)


def _changed_bytes(before: bytes, after: bytes) -> int:
    shortest = min(len(before), len(after))
    head = next((i for i in range(shortest) if before[i] != after[i]), shortest)
    tail = next((i for i in range(shortest - head) if before[-1 - i] != after[-1 - i]), shortest - head)
    return len(before) + len(after) - 2 * (head + tail)
