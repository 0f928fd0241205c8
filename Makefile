# Targets for users and developers. tools/setup.sh sets up what a target needs and skips existing parts.
.DEFAULT_GOAL := help
VENV := .venv/bin
# The environment has cmake and ninja as wheels if the machine lacks them.
export PATH := $(CURDIR)/$(VENV):$(PATH)
JOBS ?= $(shell nproc)
CPP_FOLDERS := common engine fastpath profiler tests/common tests/engine tests/fastpath tests/profiler
CPP := $(shell git ls-files -- $(CPP_FOLDERS) | grep -E '[.]([ch]pp|cuh?)$$')

.PHONY: help run gpu check test lint format docs bench wheel install-test gpu-test image-test kube-test

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

# One pause of 0.1 ms changes the mean of 20 iterations of a small message by half. 100 iterations are less sensitive.
run: ## set up (with the GPU engine if there is a GPU), then measure and check an all-reduce on this machine
	@tools/setup.sh run
	@$(VENV)/busbw run all_reduce -n 100

# The ignored folders have tests that start programs, which take most of the time of all Python tests.
check: lint ## lint, then run the fast tests of the Python command
	python -m pytest -q -n $(JOBS) --dist loadfile tests/python $(addprefix --ignore=tests/python/,ab cli launchers project)

test: ## set up, then run all tests, also with the sanitizers
	@tools/setup.sh test
	@tools/test.sh

lint: ## check formatting, style, types and language
	@tools/setup.sh lint
	clang-format --dry-run --Werror $(CPP)
	ruff format --check src tests bench tools
	ruff check src tests bench tools
	mypy
	python tools/lint_language.py
	hadolint deploy/Dockerfile

format: ## format the sources as `make lint` requires
	@tools/setup.sh lint
	clang-format -i $(CPP)
	ruff format src tests bench tools
	ruff check --fix-only src tests bench tools

docs: ## build the documentation as a searchable site in build/site
	@tools/setup.sh docs
	@$(VENV)/python tools/docs_site.py

bench: ## measure the speed of busbw and its peers
	@tools/setup.sh run
	@tools/bench.sh

gpu: ## set up with the GPU engine; needs neither a GPU nor a CUDA toolkit (CUDA_ARCHITECTURES=90-real: only H100)
	@tools/setup.sh gpu

wheel: ## build a wheel with the GPU engine in dist/; needs neither a GPU nor a CUDA toolkit (CPU=1: without it)
	@tools/wheel.sh

install-test: ## install the wheel of dist/ on clean machines and time it (needs root and debootstrap)
	@tools/install_test.sh

gpu-test: ## test the wheel on the GPUs of this machine; records go to build/gpu-results-*
	@tools/gpu_test.sh

image-test: ## build the CPU container image and run a job of two containers (needs root and Debian)
	@tools/image_test.sh

kube-test: ## build a real control plane and test busbw launch kubernetes on it (needs Go)
	@tools/setup.sh test
	@tools/kube/test.sh
