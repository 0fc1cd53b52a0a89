# The two commands of the README, each with its own set-up.
ARM ?= ur5e
PLANT ?= worn
REFERENCE ?= plum
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := src/trimtab src/trimtab_ros

.PHONY: demo test setup clean

demo: setup  ## an arm in simulation, classical controllers side by side; ARM=ur5e|wam|open_manipulator_x|so101
	$(BIN)/trimtab run --arm $(ARM) --plant $(PLANT) --reference $(REFERENCE) \
		--compare pd,computed_torque,friction,observer,adaptive,friction+adaptive+observer

test: setup  ## ruff, mypy, pytest
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(foreach package,$(PACKAGES),$(package)/$(notdir $(package))) benchmarks launch
	$(BIN)/python -m pytest

setup: $(VENV)/.ready

$(VENV)/.ready: constraints.txt requirements.txt requirements-ros-wheels.txt requirements-test.txt $(wildcard src/*/setup.py)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt \
		-r requirements.txt -r requirements-ros-wheels.txt -r requirements-test.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation $(addprefix -e ,$(PACKAGES))
	touch $@

clean:  ## removes what setup, builds and runs made
	rm -rf $(VENV) build install log runs
