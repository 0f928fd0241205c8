# All that a person types. tools/setup.sh does the setting up and knows what is already there.
.DEFAULT_GOAL := help
VENV := .venv/bin
# The wheels of cmake and ninja, where the machine has none, lie in the environment.
export PATH := $(CURDIR)/$(VENV):$(PATH)
JOBS ?= $(shell nproc)
CPP := $(shell git ls-files -- 'common/*.[ch]pp' 'engine/*.[ch]pp' 'engine/*.cu' 'engine/*.cuh' 'fastpath/*.[ch]pp' \
       'fastpath/*.cu' 'fastpath/*.cuh' 'tests/common/*.[ch]pp' 'tests/engine/*.[ch]pp' 'tests/fastpath/*.[ch]pp')

.PHONY: help run test lint format bench wheel gpu-test image-test kube-test

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

run: ## set up all that is needed, then measure and check an all-reduce on this machine
	@tools/setup.sh run
	@$(VENV)/busbw run all_reduce

test: ## set up all that is needed, then run every test, with the sanitizers too
	@tools/setup.sh test
	@tools/test.sh

lint: ## check the formatting, the style and the types
	@tools/setup.sh lint
	clang-format --dry-run --Werror $(CPP)
	ruff format --check src tests bench tools
	ruff check src tests bench tools
	mypy
	hadolint deploy/Dockerfile

format: ## lay the sources out as `make lint` demands
	@tools/setup.sh lint
	clang-format -i $(CPP)
	ruff format src tests bench tools
	ruff check --fix-only src tests bench tools

bench: ## measure this project's own speed beside its peers
	@tools/setup.sh run
	@tools/bench.sh

wheel: ## build one wheel with the GPU engine into dist/; takes neither a GPU nor a CUDA toolkit
	@tools/wheel.sh

gpu-test: ## test that wheel on the GPUs of this machine and keep its records in build/gpu-results-*
	@tools/gpu_test.sh

image-test: ## build the CPU container image without pulling anything and run a job of two containers (root, Debian)
	@tools/image_test.sh

kube-test: ## test busbw launch kubernetes on a real control plane, which is built first (needs Go)
	@tools/setup.sh test
	@tools/kube/test.sh
