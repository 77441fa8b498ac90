// Package manifest lists what is in packages: of each ELF file what it needs, where that is found, which code for GPUs
// it has and which store paths it names, and of each package the sums.
//
// A [Document] is the same for the same files, on every machine: libraries are looked for as on a processor that has
// no more than its architecture's baseline, without variables of an environment, and whether this machine has a GPU
// driver does not matter ([Library.Driver]). What a library resolves to is what the package process says of a start:
// of a program as it is started, of a library as the usual program loads it.
//
// [Reader] makes one, file by file. [Compare] says what differs between two, without the hashes of store paths.
package manifest
