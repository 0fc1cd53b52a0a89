# The two commands of the README, each with its own set-up.
ARM ?= ur5e
PLANT ?= worn
REFERENCE ?= plum
MODEL ?= mlp
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := src/trimtab src/trimtab_ros
TRAINING := src/trimtab_training

.PHONY: demo test train setup setup-training clean

demo: setup  ## an arm in simulation, with and without the learned residual; ARM=ur5e|wam|open_manipulator_x|so101
	$(BIN)/trimtab run --arm $(ARM) --plant $(PLANT) --reference $(REFERENCE) --residual $(MODEL) \
		--compare pd,computed_torque,friction,observer,adaptive,friction+adaptive+observer

train: setup-training  ## trains the arm's residual model anew; ARM as above
	$(BIN)/trimtab train --arm $(ARM) --replace

test: setup-training  ## ruff, mypy, pytest
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(foreach package,$(PACKAGES) $(TRAINING),$(package)/$(notdir $(package))) benchmarks launch
	$(BIN)/python -m pytest -n 2 -m "not real_time"
	$(BIN)/python -m pytest -m real_time src/trimtab_ros/test

setup: $(VENV)/.ready

$(VENV)/.ready: constraints.txt requirements.txt requirements-ros-wheels.txt requirements-test.txt $(wildcard src/*/setup.py)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt \
		-r requirements.txt -r requirements-ros-wheels.txt -r requirements-test.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation $(addprefix -e ,$(PACKAGES))
	touch $@

setup-training: $(VENV)/.training

# A mark of its own: torch is large, and only training and its tests need it.
$(VENV)/.training: $(VENV)/.ready requirements-training.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -r requirements-training.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e $(TRAINING)
	touch $@

clean:  ## removes what setup, builds and runs made
	rm -rf $(VENV) build install log runs
