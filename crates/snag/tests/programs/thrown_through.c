/* For thrown.cpp: can be unwound, but says nothing when it is. */
void deep(int depth, void (*then)(void)) {
    if (depth) deep(depth - 1, then);
    else then();
    __asm__ volatile("");
}
