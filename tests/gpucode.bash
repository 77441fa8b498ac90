# shellcheck shell=bash
# gpu_code SM…: assembler text of GPU code for some GPUs, of 4 kB each, as nvcc links it in.
gpu_code() {
  local sm
  printf '.section .note.GNU-stack,"",%%progbits\n.section .nv_fatbin,"a",%%progbits\n.balign 8\n7: .4byte 0xBA55ED50; .2byte 1, 16; .8byte 9f - 8f\n8:\n'
  for sm in "$@"; do
    printf '.2byte 2, 0x101; .4byte 64; .8byte 4096; .8byte 0; .2byte 0, 8; .4byte %s; .8byte 0, 0x11, 0, 0\n.fill 512, 8, 0x1234567890abcde%s\n' "$sm" $((sm % 10))
  done
  printf '9:\n.section .nvFatBinSegment,"aw",%%progbits\n.balign 8\n.4byte 0x466243B1, 1; .8byte 7b, 0\n'
}
