"""What every model must do; subclass it, give it a `make_model` fixture, and pytest runs it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from heldout.models.base import Message, Model, Request

__all__ = ["ModelContract"]

_ASK = Request(messages=(Message(role="user", content="Say one word."),), max_tokens=4)
_CHOOSE = _ASK.model_copy(update={"choices": ("person", "number")})


class ModelContract:
    """Needs a fixture `make_model`: a function that returns a new, unused model of the same settings each time."""

    @pytest.fixture
    def model(self, make_model: Callable[[], Model]) -> Iterator[Model]:
        model = make_model()
        yield model
        model.close()

    def test_names_itself(self, model: Model, make_model: Callable[[], Model]) -> None:
        assert model.name
        assert model.fingerprint
        assert make_model().fingerprint == model.fingerprint
        flags = (model.deterministic, model.can_choose, model.simulated)
        assert all(isinstance(flag, bool) for flag in flags)

    def test_answers_and_counts(self, model: Model) -> None:
        reply = model.complete(_ASK)
        assert isinstance(reply.text, str)
        assert reply.calls >= 1
        assert reply.tokens_in > 0
        assert reply.tokens_out > 0
        assert reply.choice_logprobs is None

    def test_chooses_among_exactly_the_choices(self, model: Model) -> None:
        if not model.can_choose:
            pytest.skip("this model does not choose")
        chosen = model.complete(_CHOOSE).choice_logprobs
        assert chosen is not None
        assert set(chosen) == set(_CHOOSE.choices)
        assert all(-100.0 <= value <= 0.0 for value in chosen.values())

    def test_repeats_itself_where_it_says_so(self, model: Model) -> None:
        if not model.deterministic:
            pytest.skip("this model is not deterministic")
        first = model.complete(_ASK)
        model.complete(Request(messages=(Message(role="user", content="Say one other thing."),), max_tokens=4))
        assert model.complete(_ASK) == first

    def test_travels_to_a_worker_before_its_first_use(self, model: Model) -> None:
        copy: Model = pickle.loads(pickle.dumps(model))
        assert copy.fingerprint == model.fingerprint
        assert isinstance(copy.complete(_ASK).text, str)
        copy.close()

    def test_answers_several_threads(self, model: Model) -> None:
        with ThreadPoolExecutor(4) as pool:
            replies = list(pool.map(model.complete, [_ASK] * 4))
        assert all(reply.tokens_in > 0 for reply in replies)

    def test_closes_twice(self, model: Model) -> None:
        model.complete(_ASK)
        model.close()
        model.close()
