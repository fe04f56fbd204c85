/* Memory that is freed stays as it is, and is never given out again: what a process left there can be read.
 * Only once keep is set, and only blocks below 256 KB. To be preloaded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <string.h>

volatile int keep = 0;

static int kept(void* block) {
    return keep && block && malloc_usable_size(block) < (1 << 18);
}

void free(void* block) {
    static void (*real_free)(void*);
    if (kept(block)) return;
    if (!real_free) real_free = (void (*)(void*))dlsym(RTLD_NEXT, "free");
    real_free(block);
}

void* realloc(void* block, size_t size) {
    static void* (*real_realloc)(void*, size_t);
    if (kept(block)) {
        size_t before = malloc_usable_size(block);
        void* moved = malloc(size);
        if (moved) memcpy(moved, block, before < size ? before : size);
        return moved;
    }
    if (!real_realloc) real_realloc = (void* (*)(void*, size_t))dlsym(RTLD_NEXT, "realloc");
    return real_realloc(block, size);
}
