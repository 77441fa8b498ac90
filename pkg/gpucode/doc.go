// Package gpucode lists the code for NVIDIA's and AMD's GPUs that files carry, and says what a GPU will
// take of it. A caller reads a file with [Read], a list of GPUs with [ParseList], and asks with [File.Judge].
//
// nvcc puts the code of each translation unit into a container: cubins, which are machine
// code for one architecture, PTX, which the driver compiles when the program starts, and
// LTO-IR, which is linked at run time. The containers of a library are one behind the other
// in the section .nv_fatbin, those of relocatable device code in __nv_relfatbin. NVIDIA's
// libraries have more of them in their data, where only their own code knows of them:
// .cask_resource in cuBLASLt, .data or .ldata in cuFFT, .rodata in cuSPARSE. The format is
// not documented; what is known of it was read off files, and off what cuobjdump prints.
// [Read] takes a program, a library, an object, a static archive or a file of nvcc -fatbin.
//
// Only headers are read of containers, and of the smallest cubins whether they have any
// instructions. Of a file with a section of nvcc's, the data between containers is searched
// for their magic; other files' data is not. In a file without section headers all that is
// loaded is searched.
//
// For AMD's GPUs clang puts the code of a translation unit into a bundle in .hip_fatbin ([Bundle]): a code object for
// each, or all of them compressed, of which the table alone is unpacked.
//
// NVIDIA's rules say which code runs where: [Arch.RunsOn], [Arch.CompilesFor]. [File.Judge] applies
// them to a file's containers.
package gpucode
