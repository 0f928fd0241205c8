#include "run/unsupported_types.hpp"

#include <doctest/doctest.h>

#include "backends/host/memory/shared_memory_backend.hpp"
#include "collectives/registry.hpp"
#include "support_errors.hpp"

using namespace busbw;

namespace {

/// A backend that does not support one type, and cannot reduce another one.
class PoorBackend final : public Backend {
 public:
  std::optional<Limitation> limitation_of(Dtype dtype, bool reduces) const override {
    if (dtype == Dtype::f8e4m3) return Limitation{"it is too old", "use a new one"};
    if (dtype == Dtype::bfloat16 && reduces) return Limitation{"its GPU is too old", "use newer ones"};
    return std::nullopt;
  }
  const BackendTraits& traits() const override { return kHostTraits; }
  std::string version() const override { return "0"; }
  Device device(int) const override { return {}; }
  std::size_t available_bytes(int) const override { return 0; }
  std::size_t work_bytes(int) const override { return 0; }
  void reserve(int, std::size_t) override {}
  std::unique_ptr<Communicator> connect(Team&, Team&) override { return nullptr; }
};

DataChoice choice(std::vector<Dtype> dtypes) { return {std::move(dtypes), {Redop::sum}, {}}; }
const DataChoice kAll = choice({kDtypes.begin(), kDtypes.end()});

std::vector<UnsupportedType> find_unsupported(const DataChoice& data, const char* collective, const Backend& backend) {
  return unsupported_types(data, *make_collective(collective, {}), backend);
}

}  // namespace

TEST_CASE("unsupported_types: types that the backend cannot move, or cannot reduce if needed") {
  const PoorBackend poor;
  using Types = std::vector<Dtype>;
  CHECK(dtypes_of(find_unsupported(kAll, "all_reduce", poor)) == Types{Dtype::bfloat16, Dtype::f8e4m3});
  // sendrecv loops over operators but does not reduce.
  for (const char* collective : {"sendrecv", "all_gather"})
    CHECK(dtypes_of(find_unsupported(kAll, collective, poor)) == Types{Dtype::f8e4m3});
  CHECK(find_unsupported(kAll, "all_reduce", SharedMemoryBackend(1, 1, "0")).empty());
}

TEST_CASE("unsupported_types: a named type ends the run, with reason and remedy") {
  const PoorBackend poor;
  CHECK(sentence_of<EnvironmentError>([&] { find_unsupported(choice({Dtype::f8e4m3}), "broadcast", poor); }) ==
        "-d f8e4m3 (--datatype): it is too old; use a new one, or measure another type");
  check_names(sentence_of<EnvironmentError>([&] { find_unsupported(choice({Dtype::bfloat16}), "reduce", poor); }),
              {"-d bfloat16", "its GPU is too old"});
  CHECK(find_unsupported(choice({Dtype::bfloat16}), "broadcast", poor).empty());
}

TEST_CASE("exclude_types: keeps the other types in order") {
  const DataChoice left = exclude_types(kAll, {Dtype::int8, Dtype::f8e5m2});
  CHECK(left.dtypes.size() == kDtypes.size() - 2);
  CHECK(left.dtypes.front() == Dtype::uint8);
  CHECK(left.dtypes.back() == Dtype::f8e4m3);
  CHECK(left.redops == kAll.redops);
}

TEST_CASE("excluded_type_notes: one sentence per reason, with all its types") {
  CHECK(excluded_type_notes({}).empty());
  const Limitation old{"it is too old", "use a new one"};
  const auto notes = excluded_type_notes({{Dtype::f8e4m3, old}, {Dtype::float16, {"no", "do"}}, {Dtype::f8e5m2, old}});
  REQUIRE(notes.size() == 2);
  CHECK(notes[0] == "-d all skips f8e4m3 and f8e5m2: it is too old; use a new one to measure them");
  CHECK(notes[1] == "-d all skips half: no; do to measure it");
}
