// enter ROOT USER PROGRAM ARGUMENT...: starts a program in a root of its own, as a user. The root is that of a mount
// namespace, not of chroot, in which the kernel lets nobody make a user namespace. Linked statically.
#define _GNU_SOURCE
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

static void must(int failed, const char *what) {
  if (failed) {
    perror(what);
    exit(125);
  }
}

int main(int count, char **args) {
  if (count < 4)
    return 125;
  int user = atoi(args[2]);
  must(unshare(CLONE_NEWNS), "unshare");
  must(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), "private");
  must(mount(args[1], args[1], NULL, MS_BIND | MS_REC, NULL), "bind");
  must(chdir(args[1]), "chdir");
  must(mount("none", "proc", "proc", 0, NULL), "proc");
  must(mount("/dev/null", "dev/null", NULL, MS_BIND, NULL), "dev/null");
  must(syscall(SYS_pivot_root, ".", "."), "pivot_root");
  must(umount2(".", MNT_DETACH), "umount");
  must(chdir("/home/me"), "chdir");
  must(setgroups(0, NULL) || setgid(user) || setuid(user), "user");
  char *environment[] = {"HOME=/home/me", "PATH=/tools:/bin", "LC_ALL=C", NULL};
  execve(args[3], args + 3, environment);
  perror(args[3]);
  return 127;
}
