import subprocess
import sys

import pytest


def median(text):
    argv = [sys.executable, "/app/median.py"]
    return subprocess.run(argv, input=text, capture_output=True, text=True, timeout=20, check=False)


@pytest.mark.parametrize(
    ("text", "said"),
    [("3\n1\n2\n", "2.00"), ("10\n9\n\n100\n2\n", "9.50"), ("-1.5\n", "-1.50"), ("1e2\n7\n8", "8.00")],
)
def test_the_median(text, said):
    done = median(text)
    assert (done.stdout.strip(), done.returncode) == (said, 0)


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_no_numbers(text):
    done = median(text)
    assert (done.stdout, done.returncode) == ("", 1)
