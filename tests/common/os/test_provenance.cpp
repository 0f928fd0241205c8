#include "common/os/provenance.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace busbw;

namespace {

NamedValues kept_of(std::vector<std::string> entries) {
  std::vector<char*> environment;
  for (std::string& entry : entries) environment.push_back(entry.data());
  environment.push_back(nullptr);
  return tuning_environment(environment.data());
}

bool keeps(const std::string& variable) { return !kept_of({variable + "=value"}).empty(); }

}  // namespace

TEST_CASE("tuning_environment: keeps tuning and launch variables, sorted, with full values") {
  const NamedValues kept = kept_of({"UCX_TLS=all", "NCCL_DEBUG=INFO", "HOME=/root", "NCCL_ALGO=a=b;c", "LD_PRELOAD="});
  CHECK(kept == NamedValues{{"LD_PRELOAD", ""}, {"NCCL_ALGO", "a=b;c"}, {"NCCL_DEBUG", "INFO"}, {"UCX_TLS", "all"}});
}

TEST_CASE("tuning_environment: other variables are excluded") {
  CHECK(keeps("NCCL_PAT_ENABLE"));
  for (const char* variable : {"NCCL_IB_PKEY", "NCCL_TESTS_SPLIT", "UCX_NET_DEVICES", "FI_PROVIDER", "OMPI_MCA_btl",
                               "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "SLURM_JOB_ID", "SLURM_NTASKS"})
    CHECK_MESSAGE(keeps(variable), variable);
  for (const char* variable : {"", "PATH", "HOME", "USER", "AWS_SECRET_ACCESS_KEY", "MY_NCCL_DEBUG", "nccl_debug",
                               "HF_TOKEN", "SLURM_JWT", "SSH_AUTH_SOCK", "PWD", "KUBECONFIG", "OMPI_COMM_WORLD_RANK"})
    CHECK_MESSAGE(!keeps(variable), variable);
}

TEST_CASE("tuning_environment: names of secrets are excluded, in upper and lower case") {
  for (const char* variable :
       {"NCCL_TOKEN", "NCCL_AUTH_TOKEN", "UCX_SECRET", "BUSBW_PASSWORD", "BUSBW_PASSWD", "FI_CREDENTIALS",
        "NCCL_API_KEY", "BUSBW_KEY_FILE", "OMPI_MCA_sec_password", "OMPI_MCA_auth_token", "NCCL_NET_AUTH",
        "UCX_AUTHORIZATION", "BUSBW_PASSPHRASE", "OMPI_MCA_my_secret", "OMPI_MCA_ssl_key", "BUSBW_APIKEY"})
    CHECK_MESSAGE(!keeps(variable), variable);
  for (const char* variable : {"BUSBW_SSHPASS", "NCCL_DB_PASS", "UCX_PWD", "OMPI_MCA_sec_pwd", "BUSBW_GH_PAT"})
    CHECK_MESSAGE(!keeps(variable), variable);
}

TEST_CASE("tuning_environment: only the secret of a URL is masked") {
  const auto kept_value = [](const std::string& value) { return kept_of({"NCCL_URL=" + value}).at(0).second; };
  CHECK(kept_value("http://user:hush@host:80/a") == "http://user:(redacted)@host:80/a");
  CHECK(kept_value("redis://:h/u@s@host,http://b:hush@c x@y") == "redis://:(redacted)@host,http://b:(redacted)@c x@y");
  CHECK(kept_value("git+https://ghp_hush@github.com/x") == "git+https://(redacted)@github.com/x");
  for (const char* value :
       {"http://user@host", "http://host:80/a@b", "tcp://n1:29555", "://", "a:b@c", "http://h/c:d@e"})
    CHECK(kept_value(value) == value);
}

TEST_CASE("tuning_environment: ignores entries without '=' and accepts an empty environment") {
  CHECK(kept_of({}).empty());
  CHECK(kept_of({"NCCL_DEBUG", "=", "=value"}).empty());
}

TEST_CASE("machine_facts: unique names, no empty values") {
  const NamedValues facts = machine_facts();
  std::vector<std::string> names;
  for (const auto& [name, value] : facts) {
    CHECK_FALSE(value.empty());
    names.push_back(name);
  }
  for (const char* name : {"host", "kernel", "cpus"}) CHECK(std::ranges::count(names, name) == 1);
}

TEST_CASE("host_name: up to the first dot") {
  CHECK_FALSE(host_name().empty());
  CHECK(host_name().find('.') == std::string::npos);
}
