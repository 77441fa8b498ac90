# With CACHE: what patchelf --build-resolution-cache leaves (owner NixOS, type 0x63a86cb6). Else a note of an owner who counts
# from where it stands.
.ifdef CACHE
.section .note.nixos.ldcache,"a",@note
.align 4
.long 6, 32, 0x63a86cb6
.asciz "NixOS"
.align 4
.asciz "/nix/store/0-stale/lib/liba.so"
.align 4
.else
.section .note.someone,"a",@note
.align 4
.long 8, 8, 1
.asciz "Someone"
.align 4
.long here - ., 0
.endif
.text
here: .byte 0
.section .note.GNU-stack,"",@progbits
