int base(void) { return 40; }
