// The first process of the little system in which programs meet an old kernel: runs /t/*/main, says how each ended, and
// switches the machine off.
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    struct utsname name;
    uname(&name);
    mount("none", "/proc", "proc", 0, 0); // where loaders find $ORIGIN
    printf("\nKERNEL %s\n", name.release);
    struct dirent **entries;
    int n = scandir("/t", &entries, 0, alphasort);
    for (int i = 0; i < n; i++) {
        char path[300];
        int status;
        if (entries[i]->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/t/%s/main", entries[i]->d_name);
        printf("RUN %s ", entries[i]->d_name);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            dup2(1, 2);
            execl(path, path, (char *)0);
            printf("cannot be executed\n");
            fflush(stdout);
            _exit(126);
        }
        waitpid(child, &status, 0);
        if (status)
            printf("STATUS %#x\n", status);
    }
    puts("END");
    fflush(stdout);
    sync();
    reboot(RB_POWER_OFF);
    return 0;
}
