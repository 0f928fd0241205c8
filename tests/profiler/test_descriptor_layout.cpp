// Offsets of the members that the plugin reads, as NCCL's headers of each version lay them out.
#include <cstddef>

#include "profiler/nccl_profiler.hpp"

namespace busbw::profiler {
namespace {

#define CHECK_LAYOUT(Type, member, offset) static_assert(offsetof(Type, member) == (offset))

#define CHECK_COMMON_LAYOUT(Type)                \
  CHECK_LAYOUT(Type, type, 0);                   \
  CHECK_LAYOUT(Type, parent, 8);                 \
  CHECK_LAYOUT(Type, rank, 16);                  \
  CHECK_LAYOUT(Type, proxy_operation.pid, 24);   \
  CHECK_LAYOUT(Type, proxy_operation.steps, 36); \
  CHECK_LAYOUT(Type, proxy_operation.is_send, 44)
CHECK_COMMON_LAYOUT(DescriptorV1);
CHECK_COMMON_LAYOUT(DescriptorV2);
CHECK_COMMON_LAYOUT(DescriptorV3);
CHECK_COMMON_LAYOUT(DescriptorV4);
CHECK_COMMON_LAYOUT(DescriptorV5);

// The first members of a collective and of a transfer, which name their communicator in versions 1 to 3.
#define CHECK_NAMED_LAYOUT(Type)                     \
  CHECK_LAYOUT(Type, collective.name, 24);           \
  CHECK_LAYOUT(Type, collective.id, 32);             \
  CHECK_LAYOUT(Type, collective.event.function, 48); \
  CHECK_LAYOUT(Type, collective.event.send, 56);     \
  CHECK_LAYOUT(Type, collective.event.receive, 64);  \
  CHECK_LAYOUT(Type, collective.event.count, 72);    \
  CHECK_LAYOUT(Type, collective.event.root, 80);     \
  CHECK_LAYOUT(Type, transfer.name, 24);             \
  CHECK_LAYOUT(Type, transfer.id, 32);               \
  CHECK_LAYOUT(Type, transfer.event.function, 40);   \
  CHECK_LAYOUT(Type, transfer.event.datatype, 56);   \
  CHECK_LAYOUT(Type, transfer.event.count, 64);      \
  CHECK_LAYOUT(Type, transfer.event.peer, 72)
CHECK_NAMED_LAYOUT(DescriptorV1);
CHECK_LAYOUT(DescriptorV1, collective.event.datatype, 84);
CHECK_LAYOUT(DescriptorV1, collective.event.channels, 104);
CHECK_LAYOUT(DescriptorV1, collective.event.algorithm, 106);
CHECK_LAYOUT(DescriptorV1, collective.event.protocol, 107);
CHECK_NAMED_LAYOUT(DescriptorV2);
CHECK_LAYOUT(DescriptorV2, collective.event.datatype, 88);
CHECK_LAYOUT(DescriptorV2, collective.event.channels, 104);
CHECK_LAYOUT(DescriptorV2, collective.event.algorithm, 112);
CHECK_LAYOUT(DescriptorV2, collective.event.protocol, 120);
CHECK_NAMED_LAYOUT(DescriptorV3);
CHECK_LAYOUT(DescriptorV3, collective.event.datatype, 88);
CHECK_LAYOUT(DescriptorV3, collective.event.channels, 96);
CHECK_LAYOUT(DescriptorV3, collective.event.algorithm, 104);
CHECK_LAYOUT(DescriptorV3, collective.event.protocol, 112);

#define CHECK_UNNAMED_LAYOUT(Type)                \
  CHECK_LAYOUT(Type, collective.function, 32);    \
  CHECK_LAYOUT(Type, collective.send, 40);        \
  CHECK_LAYOUT(Type, collective.receive, 48);     \
  CHECK_LAYOUT(Type, collective.count, 56);       \
  CHECK_LAYOUT(Type, collective.root, 64);        \
  CHECK_LAYOUT(Type, collective.datatype, 72);    \
  CHECK_LAYOUT(Type, collective.channels, 80);    \
  CHECK_LAYOUT(Type, collective.algorithm, 88);   \
  CHECK_LAYOUT(Type, collective.protocol, 96);    \
  CHECK_LAYOUT(Type, transfer.function, 24);      \
  CHECK_LAYOUT(Type, transfer.datatype, 40);      \
  CHECK_LAYOUT(Type, transfer.count, 48);         \
  CHECK_LAYOUT(Type, transfer.peer, 56);          \
  CHECK_LAYOUT(Type, transfer.channels, 60);      \
  CHECK_LAYOUT(Type, kernel_channel.channel, 24); \
  CHECK_LAYOUT(Type, kernel_channel.gpu_ns, 32)
CHECK_UNNAMED_LAYOUT(DescriptorV4);
CHECK_UNNAMED_LAYOUT(DescriptorV5);
CHECK_LAYOUT(DescriptorV5, collective.plan, 104);
CHECK_LAYOUT(DescriptorV5, transfer.plan, 64);
CHECK_LAYOUT(DescriptorV5, group_call.is_captured, 24);
CHECK_LAYOUT(DescriptorV5, group_call.depth, 28);
CHECK_LAYOUT(DescriptorV5, collective_call.function, 24);
CHECK_LAYOUT(DescriptorV5, collective_call.count, 32);
CHECK_LAYOUT(DescriptorV5, collective_call.datatype, 40);
CHECK_LAYOUT(DescriptorV5, collective_call.root, 48);
CHECK_LAYOUT(DescriptorV5, collective_call.stream, 56);
CHECK_LAYOUT(DescriptorV5, collective_call.is_captured, 64);
CHECK_LAYOUT(DescriptorV5, transfer_call.function, 24);
CHECK_LAYOUT(DescriptorV5, transfer_call.count, 32);
CHECK_LAYOUT(DescriptorV5, transfer_call.datatype, 40);
CHECK_LAYOUT(DescriptorV5, transfer_call.stream, 48);
CHECK_LAYOUT(DescriptorV5, transfer_call.is_captured, 56);

}  // namespace
}  // namespace busbw::profiler
