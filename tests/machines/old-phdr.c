// Starts a program the way kernels before 5.18 (5.10.110) do: with AT_PHDR = load address + e_phoff, the load address being
// the first PT_LOAD's p_vaddr - p_offset (Linux 5.10, fs/binfmt_elf.c, create_elf_tables). x86-64 only.
//
//   old-phdr PROGRAM [ARGUMENT…]
//
// Exit status: the program's; 128 + N where signal N ended it; 99 where this did not work.
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(const char *what)
{
    perror(what);
    exit(99);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 99;
    pid_t child = fork();
    if (child < 0)
        die("fork");
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execv(argv[1], argv + 1);
        die(argv[1]);
    }
    int status;
    if (waitpid(child, &status, 0) < 0 || !WIFSTOPPED(status))
        die("no stop at exec");

    Elf64_Ehdr header;
    Elf64_Phdr segment;
    int fd = open(argv[1], O_RDONLY);
    if (fd < 0 || pread(fd, &header, sizeof header, 0) != sizeof header)
        die(argv[1]);
    int i = 0;
    do {
        if (i == header.e_phnum || pread(fd, &segment, sizeof segment, header.e_phoff + i * sizeof segment) != sizeof segment)
            die("no PT_LOAD");
        i++;
    } while (segment.p_type != PT_LOAD);

    // The stack at the first instruction: argc, argv, NULL, environment, NULL, auxiliary vector.
    struct user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, child, 0, &regs))
        die("PTRACE_GETREGS");
    unsigned long at = regs.rsp, n = ptrace(PTRACE_PEEKDATA, child, at, 0);
    at += 8 * (n + 2);
    while (ptrace(PTRACE_PEEKDATA, child, at, 0))
        at += 8;
    at += 8;
    unsigned long where = 0, entry = 0, type;
    for (; (type = ptrace(PTRACE_PEEKDATA, child, at, 0)) != AT_NULL; at += 16) {
        if (type == AT_PHDR)
            where = at + 8;
        if (type == AT_ENTRY)
            entry = ptrace(PTRACE_PEEKDATA, child, at + 8, 0);
    }
    if (!where || !entry)
        die("no AT_PHDR");
    unsigned long phdr = entry - header.e_entry + segment.p_vaddr - segment.p_offset + header.e_phoff;
    if (ptrace(PTRACE_POKEDATA, child, where, phdr))
        die("PTRACE_POKEDATA");
    if (ptrace(PTRACE_DETACH, child, 0, 0))
        die("PTRACE_DETACH");
    if (waitpid(child, &status, 0) < 0)
        die("waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
