#pragma once
// Descriptors of events as NCCL's headers lay them out, one flat type for each version, independent of the plugin's
// types.
#include <cstddef>
#include <cstdint>

namespace busbw::test {

struct CollectiveDescriptorV1 {
  std::uint8_t type{};
  void* parent{};
  int rank{};
  alignas(8) const char* name{};
  std::uint64_t hash{}, sequence{};
  std::uint8_t function{};
  const void* send{};
  void* receive{};
  std::size_t count{};
  int root{};
  std::uint8_t datatype{};
  std::uint32_t redop{};
  std::size_t traffic{};
  std::uint8_t max_channels{}, warps{}, algorithm{}, protocol{};
  int is_collnet{}, is_nvls{};
};
struct TransferDescriptorV1 {
  std::uint8_t type{};
  void* parent{};
  int rank{};
  alignas(8) const char* name{};
  std::uint64_t hash{};
  std::uint8_t function{};
  void* buffer{};
  std::uint8_t datatype{};
  std::size_t count{};
  int peer{};
};
struct CollectiveDescriptorV2 {
  std::uint8_t type{};
  void* parent{};
  int rank{};
  alignas(8) const char* name{};
  std::uint64_t hash{}, sequence{};
  const char* function{};
  const void* send{};
  void* receive{};
  std::size_t count{};
  int root{};
  const char* datatype{};
  std::size_t traffic{};
  std::uint8_t max_channels{}, warps{};
  const char *algorithm{}, *protocol{};
};
struct CollectiveDescriptorV3 {
  std::uint8_t type{};
  void* parent{};
  int rank{};
  alignas(8) const char* name{};
  std::uint64_t hash{}, sequence{};
  const char* function{};
  const void* send{};
  void* receive{};
  std::size_t count{};
  int root{};
  const char* datatype{};
  std::uint8_t max_channels{}, warps{};
  const char *algorithm{}, *protocol{};
};
struct TransferDescriptorV2 {  // also version 3
  std::uint8_t type{};
  void* parent{};
  int rank{};
  alignas(8) const char* name{};
  std::uint64_t hash{};
  const char* function{};
  void* buffer{};
  const char* datatype{};
  std::size_t count{};
  int peer{};
};
/// `Type`: uint8 in version 4, uint64 later. The members after `protocol` are those of version 7.
template <class Type>
struct CollectiveDescriptor {
  Type type{};
  void* parent{};
  int rank{};
  alignas(8) std::uint64_t sequence{};
  const char* function{};
  const void* send{};
  void* receive{};
  std::size_t count{};
  int root{};
  const char* datatype{};
  std::uint8_t channels{}, warps{};
  const char *algorithm{}, *protocol{};
  void* parent_group{};
  const char* variant{};
  bool is_symmetric{};
  std::uint64_t tag{};
};
template <class Type>
struct TransferDescriptor {
  Type type{};
  void* parent{};
  int rank{};
  alignas(8) const char* function{};
  void* buffer{};
  const char* datatype{};
  std::size_t count{};
  int peer{};
  std::uint8_t channels{};
  void* parent_group{};
  std::uint64_t tag{};
};
template <class Type>
struct ProxyDescriptor {
  Type type{};
  void* parent{};
  int rank{};
  alignas(8) int pid{};
  std::uint8_t channel{};
  int peer{}, steps{}, chunk_bytes{}, is_send{};
};
template <class Type>
struct KernelDescriptor {
  Type type{};
  void* parent{};
  int rank{};
  alignas(8) std::uint8_t channel{};
  std::uint64_t timer{};
};
struct GroupCallDescriptor {
  std::uint64_t type{};
  void* parent{};
  int rank{};
  alignas(8) bool is_captured{};
  int depth{};
};
struct CollectiveCallDescriptor {
  std::uint64_t type{};
  void* parent{};
  int rank{};
  alignas(8) const char* function{};
  std::size_t count{};
  const char* datatype{};
  int root{};
  void* stream{};
  bool is_captured{};
  std::uint64_t tag{};
};
struct TransferCallDescriptor {
  std::uint64_t type{};
  void* parent{};
  int rank{};
  alignas(8) const char* function{};
  std::size_t count{};
  const char* datatype{};
  void* stream{};
  bool is_captured{};
  std::uint64_t tag{};
};
struct CopyEngineDescriptor {
  std::uint64_t type{};
  void* parent{};
  int rank{};
  alignas(8) std::uint64_t sequence{};
  const char* function{};
  const void* send{};
  void* receive{};
  std::size_t count{};
  int root{};
  const char *datatype{}, *synchronization{};
  bool is_synchronized{};
  std::uint32_t batch_size{}, batches{}, number{};
  void* stream{};
};

/// The table of functions. `Init` differs between versions.
template <class Init>
struct PluginTable {
  const char* name;
  Init* init;
  int (*start)(void*, void**, void*);
  int (*stop)(void*);
  int (*state)(void*, int, void*);
  int (*finalize)(void*);
};
using FirstInit = int(void**, int*);
using FourthInit = int(void**, int*, const char*, std::uint64_t, int, int, int, void*);
using FifthInit = int(void**, std::uint64_t, int*, const char*, int, int, int, void*);

}  // namespace busbw::test
