// Needs a library of its own, so that its run path counts, too.
extern int base(void);
__thread int counter = 37;
static int made;
__attribute__((constructor)) static void make(void) { made = 2; }
int answer(int n) { return n + base() + made + counter; }
const char *where(void) { return WHERE; }
