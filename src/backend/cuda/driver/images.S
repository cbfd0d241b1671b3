// Machine code of the kernels, a fatbin for each family (found by the assembler's include path), and the
// source that generated programs begin with.
  .section .rodata
#define FAMILY(name)                  \
  .balign 64;                         \
  .globl carnot_cuda_image_##name;    \
  .hidden carnot_cuda_image_##name;   \
  carnot_cuda_image_##name:;          \
  .incbin #name
#include "kernel/cuda/families.def"
  .globl carnot_cuda_prelude
  .hidden carnot_cuda_prelude
carnot_cuda_prelude:
  .incbin "prelude_types.inl"
  .incbin "prelude_functions.inl"
  .byte 0
  .globl carnot_cuda_prelude_fp8
  .hidden carnot_cuda_prelude_fp8
carnot_cuda_prelude_fp8:
  .incbin "prelude_fp8.inl"
  .byte 0
  .section .note.GNU-stack,"",%progbits
