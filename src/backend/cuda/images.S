// The own kernels as machine code, and the source that generated programs begin with.
  .section .rodata
  .balign 64
  .globl carnot_cuda_image
  .hidden carnot_cuda_image
carnot_cuda_image:
  .incbin CARNOT_FATBIN
  .globl carnot_cuda_prelude
  .hidden carnot_cuda_prelude
carnot_cuda_prelude:
  .incbin CARNOT_TYPES
  .incbin CARNOT_FUNCTIONS
  .byte 0
  .section .note.GNU-stack,"",%progbits
