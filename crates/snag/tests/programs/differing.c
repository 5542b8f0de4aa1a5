// A library whose resolver of an indirect function changes a byte of the program at ADDRESS, before the runtime looks.
static long call(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

static void nothing(void) {}

static void *resolve(void) {
    const long protect = 10, page = ADDRESS & ~4095L;
    // Other programs, the one that records among them, have nothing there.
    if (call(protect, page, 4096, 7) == 0) {
        *(volatile unsigned char *)ADDRESS = 0x90;
        call(protect, page, 4096, 5);
    }
    return (void *)nothing;
}

void different(void) __attribute__((ifunc("resolve")));
void (*volatile reference)(void) = different;
