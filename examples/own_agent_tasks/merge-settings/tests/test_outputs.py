import json
from pathlib import Path


def test_merged():
    assert json.loads(Path("/app/settings.json").read_text()) == {
        "server": {"host": "127.0.0.1", "port": 9000, "tls": {"enabled": True, "ciphers": ["c"]}},
        "log": {"level": "info"},
        "workers": 4,
        "theme": "dark",
    }


def test_the_inputs_are_still_there():
    assert json.loads(Path("/app/defaults.json").read_text())["workers"] == 4
    assert json.loads(Path("/app/local.json").read_text())["theme"] == "dark"
