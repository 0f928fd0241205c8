"""Which variables may be secret: one rule for the command and the engine."""

import re
import time
from pathlib import Path

import pytest

from busbw.support.secret_variables import REDACTED, SECRET_ENDINGS, SECRET_WORDS, may_be_secret, redacted_variables

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "NCCL_NET_AUTH",
        "my_password",
        "KEY",
        "api_key",
        "SLURM_JWT_TOKEN",
        "SSH_PASSPHRASE",
        "Cookie",
        "SSHPASS",
        "DB_PASS",
        "PGPASSWORD",
        "PASSWD",
        "MYSQL_PWD",
        "db_pwd",
        "GH_PAT",
        "PAT",
        "gitlab_pat",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert may_be_secret(name)


@pytest.mark.parametrize(
    "name",
    ["NCCL_DEBUG", "NCCL_IB_PKEY", "UCX_TLS", "NOTE", "LD_PRELOAD", "MONKEY", "", "NCCL_PAT_ENABLE", "PWD", "OLDPWD"],
)
def test_other_names(name: str) -> None:
    assert not may_be_secret(name, "a value with TOKEN")


def test_a_url_with_a_password_is_a_secret_in_any_variable() -> None:
    assert may_be_secret("HTTPS_PROXY", "http://me:pass@proxy:3128")
    for value in ("http://proxy:3128", "http://me@proxy", "tcp://node1:29555/a:b@c", "a:b@c"):
        assert not may_be_secret("HTTPS_PROXY", value), value
    assert may_be_secret("PWD", "http://me:pass@proxy:3128")


@pytest.mark.parametrize(
    "url",
    [
        "postgres://u:p/w@h/db",
        "redis://:p/w@h",
        "https://ghp_abc@github.com/x",
        "https://gho_a@github.com/x.git",
        "https://github_pat_11A@github.com/x",
        "https://glpat-a-b@gitlab.com/x",
        "https://hf_abc@huggingface.co/x",
    ],
)
def test_a_password_may_contain_a_slash_and_a_user_may_be_a_token(url: str) -> None:
    assert may_be_secret("SOURCE", url)
    assert redacted_variables([("SOURCE", f"pip install git+{url}")]) == (("SOURCE", REDACTED),)


@pytest.mark.parametrize(
    "url", ["https://github.com/ghp_abc@main", "https://git@github.com/x", "http://h:80/a@b", "ssh://hugh_pat@h/x"]
)
def test_a_url_without_a_secret_is_shown(url: str) -> None:
    assert not may_be_secret("SOURCE", url)


def test_a_long_value_takes_linear_time() -> None:
    begin_s = time.thread_time()
    assert not may_be_secret("DATA", "a" * 130_000)
    assert time.thread_time() - begin_s < 2  # a quadratic search takes more than 20 s


def test_values_of_secrets_are_replaced_and_stay_secret() -> None:
    shown = redacted_variables([("HF_TOKEN", "hush"), ("P", "http://a:hush@b"), ("NOTE", "x")])
    assert shown == (("HF_TOKEN", REDACTED), ("P", REDACTED), ("NOTE", "x"))
    assert redacted_variables(shown) == shown
    assert [name for name, value in shown if may_be_secret(name, value)] == ["HF_TOKEN", "P"]


def test_the_engine_has_the_same_words() -> None:
    source = (ROOT / "common/os/provenance.cpp").read_text()
    (words,) = re.findall(r"kSecretWords\[\] = \{([^}]*)\}", source)
    assert tuple(re.findall(r'"(\w+)"', words)) == SECRET_WORDS
    (endings,) = re.findall(r"kSecretEndings\[\] = \{([^}]*)\}", source)
    assert tuple(re.findall(r'"(\w+)"', endings)) == SECRET_ENDINGS
    (users,) = re.findall(r"kSecretUsers\[\] = \{([^}]*)\}", source)
    prefixes = re.findall(r'"([\w-]+)"', users)
    assert len(prefixes) == 8
    assert all(may_be_secret("SOURCE", f"https://{prefix}a@host") for prefix in prefixes)
