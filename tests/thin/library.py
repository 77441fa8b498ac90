"""Makes the source of a library, or program, with GPU code: library.py CONTAINERS SEED >code.s

Each container has a cubin for 8.0, one for 9.0 and PTX for 12.0, of random size and content; those of every
fourth are small, and every sixth has one for 10.0 alone, as those in .cask_resource have. In .nvFatBinSegment a wrapper leads to each. digest() follows these, and sums up what it finds for
9.0: it is what a driver would read.
"""
import random
import sys

count, seed = int(sys.argv[1]), int(sys.argv[2])
random.seed(seed)


def entry(kind, arch, size):
    words = ",".join(f"{random.getrandbits(64):#x}" for _ in range(4))
    fill = "\n".join(f".quad {words}" for _ in range(4)) + f"\n.fill {size // 8 - 16}, 8, {random.getrandbits(31) | 1:#x}"
    return f".2byte {kind}, 0x101; .4byte 64; .8byte {size}; .8byte 0; .2byte 0, 8; .4byte {arch}; .8byte 0, 0x11, 0, 0\n{fill}"


print('.section .nv_fatbin,"a",%progbits\n.balign 8')
for i in range(count):
    size = 8 * random.randrange(20, 600) if i % 4 == 3 else 8 * random.randrange(1000, 12000)
    print(f".balign 8\ncode{i}: .4byte 0xBA55ED50; .2byte 1, 16; .8byte 9f - . - 8\n")
    if i % 6 == 5:
        print(entry(2, 100, size), "9:", sep="\n")
        continue
    print(entry(2, 80, size), entry(2, 90, 8 * random.randrange(20, 1500)), entry(1, 120, size), "9:", sep="\n")
print('.section .cask_resource,"a",%progbits\n.balign 16\n.quad 1, 2')
for size in 60000, 800, 30000:
    print(f".4byte 0xBA55ED50; .2byte 1, 16; .8byte {size + 64}\n{entry(2, 100, size)}")
print('.globl wrappers, wrappers_end\n.hidden wrappers, wrappers_end\n.section .nvFatBinSegment,"aw",%progbits\n.balign 8\nwrappers:')
for i in range(count):
    print(f".4byte 0x466243B1, 1; .8byte code{i}, 0")
print('wrappers_end:\n.section .rodata.other,"a",%progbits\n.quad 1,2,3,4,5\n.section .note.GNU-stack,"",%progbits')
