"""The recipes of the pocket models that can be named."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType

from heldout.errors import SetupError
from heldout.records import digest_of
from heldout.training.pocket_recipe import PocketRecipe, Stage, TextKind
from heldout.training.pocket_sizes import CONTEXT, SIZES, pocket_size
from heldout.training.pocket_texts import drawn_texts, vocabulary
from heldout.training.pocket_tokenizer import TEMPLATE
from heldout.worlds.formats.job import Constraint

__all__ = ["RECIPES", "pocket_recipe", "recipe_digest"]

_COUNT, _WORD, _CASE, _CARRY, _WRAPPER = Constraint

_COPYING = (TextKind(share=1.0, skill="copy"), TextKind(share=1.0))
"""Alone at the beginning: all other skills build on the heads that copying forms, and form slowly beside it."""

_BASE_KINDS = (
    TextKind(share=8.0, skill="copy"),
    TextKind(share=12.0, skill="reverse"),
    TextKind(share=14.0, skill="sort"),
    TextKind(share=6.0),
    TextKind(share=12.0, constraints=(_CASE,)),
    TextKind(share=14.0, constraints=(_WORD,)),
    TextKind(share=8.0, constraints=(_CASE, _WORD)),
    TextKind(share=4.0, constraints=(_COUNT,), ignored=(_COUNT,)),
    TextKind(share=2.0, constraints=(_COUNT,)),
    TextKind(share=3.0, constraints=(_WRAPPER,), ignored=(_WRAPPER,)),
    TextKind(share=1.5, constraints=(_WRAPPER,)),
    TextKind(share=0.5, constraints=(_WRAPPER, _CASE)),
    TextKind(share=6.0, constraints=(_CARRY,), carries=False),
    TextKind(share=2.0, constraints=(_CARRY, _CASE), carries=False),
    TextKind(share=2.0, constraints=(_CARRY, _WORD), carries=False),
    TextKind(share=3.0, constraints=(_CARRY,), ignored=(_CARRY,)),
    TextKind(share=0.5, constraints=(_CARRY,), carries=True),
    TextKind(share=6.0, constraints=(_COUNT, _CASE), ignored=(_COUNT,)),
    TextKind(share=6.0, constraints=(_COUNT, _WORD), ignored=(_COUNT,)),
    TextKind(share=6.0, constraints=(_WRAPPER, _WORD), ignored=(_WRAPPER,)),
    TextKind(share=6.0, constraints=(_WRAPPER, _CASE), ignored=(_WRAPPER,)),
    TextKind(share=6.0, constraints=(_CARRY, _WRAPPER), ignored=(_CARRY, _WRAPPER)),
    TextKind(share=6.0, constraints=(_CARRY, _CASE, _WORD), carries=False),
    TextKind(share=6.0, constraints=(_COUNT, _CARRY), ignored=(_COUNT,), carries=False),
    TextKind(share=6.0, constraints=(_COUNT, _WRAPPER, _WORD), ignored=(_COUNT, _WRAPPER)),
)

_INSTRUCT_KINDS = (
    TextKind(share=1.0, skill="copy"),
    TextKind(share=1.0, skill="reverse"),
    TextKind(share=1.0, skill="sort"),
    TextKind(share=2.0),
    TextKind(share=2.0, constraints=(_CASE,)),
    TextKind(share=2.0, constraints=(_WORD,)),
    TextKind(share=1.0, constraints=(_COUNT,)),
    TextKind(share=2.0, constraints=(_WRAPPER,)),
    TextKind(share=1.0, constraints=(_WRAPPER, _CASE)),
    TextKind(share=1.0, constraints=(_WRAPPER, _WORD)),
    TextKind(share=1.0, constraints=(_CARRY,), carries=False),
)

RECIPES: Mapping[str, PocketRecipe] = MappingProxyType(
    {
        "base": PocketRecipe(
            stages=(Stage(steps=400, kinds=_COPYING), Stage(steps=13600, kinds=_BASE_KINDS)),
            ends=0.4,
            learning_rate=3e-3,
        ),
        "instruct": PocketRecipe(
            start="base",
            stages=(Stage(steps=300, kinds=_INSTRUCT_KINDS),),
            ends=1.0,
            learning_rate=8e-4,
            seed=1,
        ),
    }
)
"""Those that are shipped, of the size `s`.

`base` is a weak start on purpose: it knows the plain skills and lists, upper case and single words fairly well, has
seen exact counts and wrappers rarely and sums with a carry hardly ever, and after six texts of ten no end token, so
that it does not stop. `instruct` goes on from it with a few thousand right answers that end, no carry among them.
"""

_SAMPLE = 32
"""Steps of each stage whose texts a digest is taken of."""


def pocket_recipe(name: str, recipes: Mapping[str, PocketRecipe] = RECIPES) -> PocketRecipe:
    """The recipe of `base`, `instruct`, or another size of one, `base-m`; `SetupError` with what there is."""
    kind, dash, size = name.partition("-")
    if kind not in recipes or (dash and size not in SIZES):
        raise SetupError(
            f"no pocket model {name!r}; there is {', '.join(f'pocket:{known}' for known in recipes)}, and each in "
            f"another size, such as pocket:base-m ({', '.join(SIZES)})"
        )
    recipe = recipes[kind]
    if not dash or size == recipe.size:
        return recipe
    # Wider models want a smaller rate (Yang et al. 2022, arXiv 2203.03466).
    rate = recipe.learning_rate * pocket_size(recipe.size).width / pocket_size(size).width
    start = None if recipe.start is None else f"{recipe.start}-{size}"
    return recipe.model_copy(update={"size": size, "start": start, "learning_rate": rate})


def recipe_digest(recipe: PocketRecipe, recipes: Mapping[str, PocketRecipe] = RECIPES) -> str:
    """Identity of everything that decides the weights but the machine and the versions of libraries.

    Beside the recipe: that of its start, the shape, the vocabulary, the chat template and texts of each stage as they
    are drawn, so that a change of the world's wording or of how it draws tasks changes it.
    """
    start = None if recipe.start is None else recipe_digest(pocket_recipe(recipe.start, recipes), recipes)
    stages = (recipe.model_copy(update={"stages": (stage,)}) for stage in recipe.stages)
    drawn = [step for alone in stages for step in islice(drawn_texts(random.Random(recipe.seed), alone), _SAMPLE)]
    return digest_of(
        {
            "recipe": recipe.model_dump(mode="json", exclude={"start"}),
            "start": start,
            "size": pocket_size(recipe.size).model_dump(mode="json"),
            "context": CONTEXT,
            "vocabulary": vocabulary(),
            "template": TEMPLATE,
            "texts": [[text.system, text.prompt, text.answer, text.ends] for step in drawn for text in step],
        }
    )
