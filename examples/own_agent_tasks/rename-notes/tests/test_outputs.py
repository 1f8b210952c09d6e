from pathlib import Path

WANTED = {
    "meeting-notes-march.md": "# March\n\n- the printer\n",
    "plan.md": "1. look\n2. think\n",
    "readme-first.md": "Read me first.\n",
    "to-do.md": "- call the plumber\n",
}


def test_names():
    assert sorted(path.name for path in Path("/app/notes").iterdir()) == sorted(WANTED)


def test_contents():
    assert {path.name: path.read_text() for path in Path("/app/notes").iterdir()} == WANTED
