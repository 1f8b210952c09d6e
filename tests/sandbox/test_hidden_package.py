"""No sandbox shows Heldout itself: whoever can run its generators can draw the tasks that nobody may see."""

from __future__ import annotations

from pathlib import Path

import pytest

import heldout
from heldout.sandbox import Scene
from heldout.sandbox.bubblewrap import Bubblewrap
from heldout.sandbox.system import layout

PACKAGE = Path(heldout.__file__).resolve().parent


def test_the_package_is_hidden_below_every_folder_that_holds_it() -> None:
    assert layout({}, {}).hidden == ()
    assert layout({str(PACKAGE.parent): "/shown"}, {}).hidden == ("/shown/heldout",)
    assert layout({str(PACKAGE): "/shown"}, {}).hidden == ("/shown",)
    assert layout({str(PACKAGE / "worlds"): "/shown"}, {}).hidden == ()


def test_a_command_finds_it_empty_and_its_neighbours_not() -> None:
    """The folder that is mounted stands for the system's site-packages."""
    if (fault := Bubblewrap().fault()) is not None:
        pytest.skip(fault)
    look = (
        "import os, sys; sys.path.insert(0, '/shown')\n"
        "print(os.listdir('/shown/heldout'), len(os.listdir('/shown')) > 0)\n"
        "import heldout; print(heldout.__file__)\n"
        "import heldout.worlds.formats.source"
    )
    with Bubblewrap().open(Scene(mounts={str(PACKAGE.parent): "/shown"})) as box:
        done = box.run(["python3", "-c", look])
    assert "[] True\nNone\n" in done.output
    assert "No module named 'heldout.worlds'" in done.output
    assert (PACKAGE / "worlds").is_dir()
