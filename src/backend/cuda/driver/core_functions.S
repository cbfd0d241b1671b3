// The core's functions as this module calls them: jumps through slots that carnot_backend_entry fills. The arguments
// pass unchanged, variable ones too; the address of such a jump serves as a function pointer.
  .bss
  .balign 8
  .globl carnot_core_slots
  .hidden carnot_core_slots
carnot_core_slots:
#define CORE_FUNCTION(name) slot_##name: .zero 8
#include "backend/core_functions.def"

  .text
#if defined(__x86_64__)
#define JUMP(name) endbr64; jmp *slot_##name(%rip)
#elif defined(__aarch64__)
#define JUMP(name) bti jc; adrp x16, slot_##name; ldr x16, [x16, #:lo12:slot_##name]; br x16
#else
#error "jumps through slots are written for x86-64 and AArch64"
#endif
#define CORE_FUNCTION(name)  \
  .globl name;               \
  .hidden name;              \
  .type name, %function;     \
  name: JUMP(name);          \
  .size name, . - name
#include "backend/core_functions.def"
  .section .note.GNU-stack,"",%progbits
