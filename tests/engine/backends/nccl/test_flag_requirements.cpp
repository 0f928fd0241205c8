#include "backends/nccl/flag_requirements.hpp"

#include <doctest/doctest.h>

#include <set>

#include "support_environment.hpp"
#include "support_errors.hpp"

using namespace busbw;

namespace {

constexpr int kHeaders = 22809;

/// A fake library of some version with these functions, in addition to those of every version.
struct MadeUpLibrary {
  int version;
  std::set<std::string_view> functions;
};

const std::set<std::string_view> kOf218{"ncclCommInitRankConfig"};
const std::set<std::string_view> kOf219{"ncclCommInitRankConfig", "ncclMemAlloc", "ncclMemFree", "ncclCommRegister",
                                        "ncclCommDeregister"};
const std::set<std::string_view> kOf227{"ncclCommInitRankConfig",  "ncclMemAlloc",       "ncclMemFree",
                                        "ncclCommRegister",        "ncclCommDeregister", "ncclCommWindowRegister",
                                        "ncclCommWindowDeregister"};
const std::set<std::string_view> kOf228{"ncclCommInitRankConfig",
                                        "ncclMemAlloc",
                                        "ncclMemFree",
                                        "ncclCommRegister",
                                        "ncclCommDeregister",
                                        "ncclCommWindowRegister",
                                        "ncclCommWindowDeregister",
                                        "ncclDevCommCreate",
                                        "ncclDevCommDestroy",
                                        "ncclTeamLsa"};

std::string sentence(const NcclOptions& flags, const MadeUpLibrary& library, int headers = kHeaders) {
  return unmet_requirement(flag_requirements(flags, headers), library.version, "/lib/libnccl.so.2",
                           [&](const char* function) { return library.functions.contains(function); });
}

NcclOptions registering(RegistrationMode kind) {
  NcclOptions flags;
  flags.registration = kind;
  return flags;
}

NcclOptions with_policy(int policy) {
  NcclOptions flags;
  flags.cta_policy = policy;
  return flags;
}

NcclOptions with_kernel() {
  NcclOptions flags = registering(RegistrationMode::symmetric);
  flags.kernel = find_device_kernel("all_reduce", 1);
  return flags;
}

}  // namespace

TEST_CASE("flag_requirements: without flags there are no requirements, and every library is accepted") {
  CHECK(flag_requirements({}, kHeaders).empty());
  CHECK(sentence({}, {21800, {}}).empty());
}

TEST_CASE("unmet_requirement: -R 1 needs 2.19") {
  check_names(sentence(registering(RegistrationMode::local), {21803, kOf218}),
              {"-R 1 (--local_register)", "ncclMemAlloc", "ncclCommRegister", "NCCL 2.18.3", "/lib/libnccl.so.2",
               "2.19 or later", "leave -R out"});
  CHECK(sentence(registering(RegistrationMode::local), {21903, kOf219}).empty());
}

TEST_CASE("unmet_requirement: -R 2 needs 2.27; only what is missing is named") {
  const std::string text = sentence(registering(RegistrationMode::symmetric), {22605, kOf219});
  check_names(text, {"-R 2", "ncclCommWindowRegister", "NCCL 2.26.5", "2.27 or later", "leave -R out"});
  CHECK(text.find("ncclMemAlloc") == std::string::npos);
  CHECK(sentence(registering(RegistrationMode::symmetric), {22703, kOf227}).empty());
}

TEST_CASE("unmet_requirement: -x needs 2.27, and -x 2 needs 2.28, though the function is older") {
  for (const int policy : {0, 1}) {
    check_names(sentence(with_policy(policy), {22602, kOf219}),
                {"-x " + std::to_string(policy), "does not work with NCCL 2.26.2", "2.27 or later", "leave -x out"});
    CHECK(sentence(with_policy(policy), {22700, kOf227}).empty());
  }
  check_names(sentence(with_policy(2), {22707, kOf227}), {"-x 2", "2.28 or later"});
  CHECK(sentence(with_policy(2), {22803, kOf228}).empty());
}

TEST_CASE("unmet_requirement: -H needs the puts of 2.29, with -G 2.30, with several contexts 2.31") {
  NcclOptions flags = registering(RegistrationMode::symmetric);
  flags.rma_contexts = 1;
  check_names(sentence(flags, {22809, kOf228}),
              {"-H 1 (--host_rma_implementation) needs ncclPutSignal, ncclWaitSignal",
               "NCCL 2.28.9 (/lib/libnccl.so.2) lacks", "use 2.29 or later", "leave -H out"});
  std::set<std::string_view> of229 = kOf228;
  of229.insert({"ncclPutSignal", "ncclWaitSignal"});
  CHECK(sentence(flags, {22902, of229}).empty());
  // Another library may export the names before it reports a version that has them.
  check_names(sentence(flags, {22809, of229}), {"-H 1", "does not work with NCCL 2.28.9"});

  flags.captures = true;
  // With 2.29, the run would be refused again.
  check_names(sentence(flags, {22809, kOf228}), {"-H 1", "NCCL 2.28.9", "lacks; use 2.30 or later", "leave -H out"});
  check_names(sentence(flags, {22902, of229}), {"-H 1", "with -G", "NCCL 2.29.2", "use 2.30 or later", "leave -G out"});
  CHECK(sentence(flags, {23000, of229}).empty());
  flags.rma_contexts = 2;
  check_names(sentence(flags, {23000, of229}), {"-H 2", "NCCL 2.30", "use 2.31 or later", "use -H 1"});
  CHECK(sentence(flags, {23100, of229}).empty());
}

TEST_CASE("unmet_requirement: -D needs the device API, which 2.29 changed") {
  check_names(sentence(with_kernel(), {22707, kOf227}), {"-D 1", "ncclDevCommCreate", "2.28.9", "leave -D out"});
  CHECK(sentence(with_kernel(), {22809, kOf228}).empty());
  // A build for 2.28 refuses later versions and earlier ones of 2.28.
  check_names(sentence(with_kernel(), {22902, kOf228}), {"-D 1", "2.29.2", "2.28.9 up to, not including, 2.29"});
  check_names(sentence(with_kernel(), {22803, kOf228}), {"-D 1", "2.28.3"});
  // A build for 2.29 or later accepts later versions and refuses earlier ones.
  CHECK(sentence(with_kernel(), {22907, kOf228}, 22907).empty());
  CHECK(sentence(with_kernel(), {23000, kOf228}, 22907).empty());
  check_names(sentence(with_kernel(), {22809, kOf228}, 22907), {"-D 1", "2.28.9", "2.29.7 or later"});
}

TEST_CASE("unmet_requirement: of several flags the first is named") {
  NcclOptions flags = with_kernel();
  flags.cta_policy = 2;
  check_names(sentence(flags, {21803, kOf218}), {"-R 2"});
}

TEST_CASE("disabled_by_environment: only multicast, by NCCL_NVLS_ENABLE=0") {
  NcclOptions flags = with_kernel();
  for (const int number : {1, 2, 3, 4}) {
    flags.kernel = find_device_kernel("all_reduce", number);
    made_up_environment() = {{"NCCL_NVLS_ENABLE", "0"}};
    CHECK(disabled_by_environment(flags, look_up).empty() == (number <= 2));
    made_up_environment() = {{"NCCL_NVLS_ENABLE", "1"}};
    CHECK(disabled_by_environment(flags, look_up).empty());
    made_up_environment() = {};
    CHECK(disabled_by_environment(flags, look_up).empty());
  }
  made_up_environment() = {{"NCCL_NVLS_ENABLE", "0"}};
  check_names(disabled_by_environment(flags, look_up), {"-D 4", "NCCL_NVLS_ENABLE=0", "-D 1 or 2"});
  CHECK(disabled_by_environment({}, look_up).empty());
}

TEST_CASE("flag_requirements: ranks that share a GPU need 2.30") {
  NcclOptions flags;
  flags.shares_gpus = true;
  check_names(sentence(flags, {22907, {}}),
              {"NCCL_MULTI_RANK_GPU_ENABLE=1", "NCCL 2.29.7", "use 2.30 or later", "at most as many ranks as GPUs"});
  CHECK(sentence(flags, {23007, {}}).empty());
}
