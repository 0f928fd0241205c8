// Trampolines: each forwarded function jumps to the function of the same name in the real library. FASTPATH_EXPORTS is
// the name of a generated file with lines FORWARDED_FUNCTION(index, "name", "first version"). The file has the
// functions of symbols.txt that exports/ does not define.
//
// Each function jumps through its entry in the table `fastpath_targets`. Initially the entry points to code that loads
// the function's index, saves the argument registers, calls `fastpath_resolve` and jumps to its result.
// `fastpath_resolve` also stores the real function in the table. The types of the arguments are unknown. Arguments on
// the stack stay valid, because the stack pointer is restored before the jump. Only 16 bytes of each vector register
// are saved, because no NCCL function takes wider vectors. `endbr64` and `hint #34` (`bti c`) mark addresses that an
// indirect jump may reach.
//
// The generated file is included twice, with two definitions of FORWARDED_FUNCTION. Within the asm statement, each line
// becomes a trampoline: the assembler macro `fastpath_export` writes its code, and appends its entry to the table. So
// the indexes must be 0, 1, 2, ... in the order of the lines.
#include "fastpath/forward/trampolines.hpp"

#include <array>

// clang-format off
#define FORWARDED_FUNCTION(index, name, since) "fastpath_export " name ", " #index "\n"

// A single asm statement, because the compiler may reorder several.
asm(R"(
.pushsection .data.rel.local, "aw"
.p2align 3
.globl fastpath_targets
.hidden fastpath_targets
fastpath_targets:
.popsection
.pushsection .text
)"
#if defined(__x86_64__)
R"(
.macro fastpath_export name, index
.globl \name
.type \name, @function
.p2align 4
\name:
.cfi_startproc
endbr64
jmp *fastpath_targets+8*\index(%rip)
fastpath_first_\index:
endbr64
movl $\index, %r11d
jmp fastpath_first_call
.cfi_endproc
.size \name, . - \name
.pushsection .data.rel.local
.quad fastpath_first_\index
.popsection
.endm

.type fastpath_first_call, @function
.p2align 4
fastpath_first_call:
.cfi_startproc
pushq %rbp
.cfi_def_cfa_offset 16
.cfi_offset %rbp, -16
movq %rsp, %rbp
.cfi_def_cfa_register %rbp
subq $192, %rsp
movq %rdi, (%rsp)
movq %rsi, 8(%rsp)
movq %rdx, 16(%rsp)
movq %rcx, 24(%rsp)
movq %r8, 32(%rsp)
movq %r9, 40(%rsp)
movq %rax, 48(%rsp)
movq %r10, 56(%rsp)
movaps %xmm0, 64(%rsp)
movaps %xmm1, 80(%rsp)
movaps %xmm2, 96(%rsp)
movaps %xmm3, 112(%rsp)
movaps %xmm4, 128(%rsp)
movaps %xmm5, 144(%rsp)
movaps %xmm6, 160(%rsp)
movaps %xmm7, 176(%rsp)
movl %r11d, %edi
call fastpath_resolve
movq %rax, %r11
movq (%rsp), %rdi
movq 8(%rsp), %rsi
movq 16(%rsp), %rdx
movq 24(%rsp), %rcx
movq 32(%rsp), %r8
movq 40(%rsp), %r9
movq 48(%rsp), %rax
movq 56(%rsp), %r10
movaps 64(%rsp), %xmm0
movaps 80(%rsp), %xmm1
movaps 96(%rsp), %xmm2
movaps 112(%rsp), %xmm3
movaps 128(%rsp), %xmm4
movaps 144(%rsp), %xmm5
movaps 160(%rsp), %xmm6
movaps 176(%rsp), %xmm7
leave
.cfi_def_cfa %rsp, 8
jmp *%r11
.cfi_endproc
.size fastpath_first_call, . - fastpath_first_call
)"
#elif defined(__aarch64__)
R"(
.macro fastpath_export name, index
.globl \name
.type \name, %function
.p2align 4
\name:
.cfi_startproc
hint #34
adrp x16, fastpath_targets+8*\index
ldr x16, [x16, :lo12:fastpath_targets+8*\index]
br x16
fastpath_first_\index:
hint #34
mov w17, #\index
b fastpath_first_call
.cfi_endproc
.size \name, . - \name
.pushsection .data.rel.local
.quad fastpath_first_\index
.popsection
.endm

.type fastpath_first_call, %function
.p2align 4
fastpath_first_call:
.cfi_startproc
stp x29, x30, [sp, #-224]!
.cfi_def_cfa_offset 224
.cfi_offset 29, -224
.cfi_offset 30, -216
mov x29, sp
stp x0, x1, [sp, #16]
stp x2, x3, [sp, #32]
stp x4, x5, [sp, #48]
stp x6, x7, [sp, #64]
str x8, [sp, #80]
stp q0, q1, [sp, #96]
stp q2, q3, [sp, #128]
stp q4, q5, [sp, #160]
stp q6, q7, [sp, #192]
mov w0, w17
bl fastpath_resolve
mov x16, x0
ldp x0, x1, [sp, #16]
ldp x2, x3, [sp, #32]
ldp x4, x5, [sp, #48]
ldp x6, x7, [sp, #64]
ldr x8, [sp, #80]
ldp q0, q1, [sp, #96]
ldp q2, q3, [sp, #128]
ldp q4, q5, [sp, #160]
ldp q6, q7, [sp, #192]
ldp x29, x30, [sp], #224
.cfi_restore 29
.cfi_restore 30
.cfi_def_cfa_offset 0
br x16
.cfi_endproc
.size fastpath_first_call, . - fastpath_first_call
)"
#else
#error "the fast path's trampolines are written for x86-64 and aarch64"
#endif
#include FASTPATH_EXPORTS
".purgem fastpath_export\n"
".popsection\n");
// clang-format on

#undef FORWARDED_FUNCTION

namespace busbw::fastpath {
namespace {

#define FORWARDED_FUNCTION(index, name, since) Export{name, since},
constexpr std::array kExports{
#include FASTPATH_EXPORTS
};
#undef FORWARDED_FUNCTION

}  // namespace

extern "C" {

/// The table of jump targets, defined in assembly above.
extern __attribute__((visibility("hidden"))) std::atomic<void*> fastpath_targets[kExports.size()];

/// Returns the jump target of a function at its first call. Called from the assembly above with the function's index.
__attribute__((visibility("hidden"), used)) void* fastpath_resolve(unsigned index) noexcept {
  return resolve_export(kExports[index], fastpath_targets[index]);
}

/// Marker function that distinguishes this library from NCCL (fastpath/forward/real_library.hpp).
__attribute__((visibility("default"), used)) int ncclFastPathOfBusbw() { return 1; }
}

}  // namespace busbw::fastpath
