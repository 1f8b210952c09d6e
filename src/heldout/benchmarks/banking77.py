"""Banking77: customers' messages by intent (Casanueva et al., 2020): 10,003 + 3,080 messages, 77 intents."""

from __future__ import annotations

from collections.abc import Sequence

from heldout.benchmarks.files import data_file, data_folder
from heldout.errors import SetupError
from heldout.tasks.base import Item
from heldout.tasks.rows import Row, read_csv

__all__ = ["Banking77Source"]

URL = "https://github.com/PolyAI-LDN/task-specific-datasets/tree/master/banking_data"


class Banking77Source:
    """Banking77 messages by intent, 77 classes (tasks.path or $HELDOUT_DATA/banking77).

    Train and test are merged; ids are `train-N` and `test-N`, N the row. Labels have spaces for underscores.
    """

    description = "Say which of the bank's 77 intents a customer's message has."
    instruction: str
    labels: tuple[str, ...]
    grader = "label"

    def __init__(self, *, path: str | None = None, seed: int = 0) -> None:
        del seed  # Published data is not generated; every source takes a seed.
        folder = data_folder(path, benchmark="banking77")
        self.files = {
            part: data_file(folder, [f"banking77_{part}.csv", f"{part}.csv"], url=URL) for part in ("train", "test")
        }
        # The intents are public; every one occurs in the published training file.
        self.labels = tuple(sorted({_label(row) for row in read_csv(self.files["train"]) if _whole(row)}))
        listed = ", ".join(self.labels)
        self.instruction = f"Name the intent of the customer's message, and reply with only one of these: {listed}."

    def items(self) -> Sequence[Item]:
        items = []
        for part, path in self.files.items():
            for row in read_csv(path):
                if not _whole(row):
                    raise SetupError(
                        f"{str(path)!r}, {row.where}: expected the columns text and category, got {dict(row.fields)!r}"
                    )
                label = _label(row)
                items.append(
                    Item(id=f"{part}-{row.number}", input=row.fields["text"].strip(), reference=label, stratum=label)
                )
        return items


def _whole(row: Row) -> bool:
    return bool(str(row.fields.get("text", "")).strip() and row.fields.get("category"))


def _label(row: Row) -> str:
    return str(row.fields["category"]).strip().replace("_", " ")
