/* Memory of packed operands: large ones lie one after the other in regions of huge pages.
 *
 * A call of a model streams all of its packs once, in the order in which they were made. On pages of 4 KB the
 * hardware's prefetching stops at each page's end: reading 42 MB of weights takes a fifth longer.
 * All of it is called with the GIL held. */
#ifndef PB_PACKS_H
#define PB_PACKS_H
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

enum {
    PB_HUGE_PAGE = 2 << 20,
    PB_REGION_BYTES = 64 << 20, /* address space; what no pack has touched takes no memory */
    PB_LARGE_PACK = 256 << 10   /* smaller ones come from the heap: a huge page would be mostly empty */
};

typedef struct {
    char *map, *base;
    size_t map_bytes, size, used;
    int64_t live; /* packs, and one for the region that is being filled */
} pb_region;

static pb_region *pb_filling = NULL;

static void pb_region_release(pb_region *region)
{
    if (--region->live == 0) {
        munmap(region->map, region->map_bytes);
        free(region);
    }
}

static pb_region *pb_region_new(size_t size)
{
    pb_region *region = malloc(sizeof *region);
    if (region == NULL) {
        return NULL;
    }
    region->map_bytes = size + PB_HUGE_PAGE;
    void *map = mmap(NULL, region->map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) {
        free(region);
        return NULL;
    }
    region->map = map;
    region->base = (char *)(((uintptr_t)map + PB_HUGE_PAGE - 1) & ~(uintptr_t)(PB_HUGE_PAGE - 1));
    region->size = size, region->used = 0, region->live = 1;
#ifdef MADV_HUGEPAGE
    madvise(region->base, size, MADV_HUGEPAGE); /* advice: refused where the system has none */
#endif
    return region;
}

/* Memory for a pack, 64-byte aligned, or NULL; *home is what pb_pack_free wants back. */
static void *pb_pack_alloc(size_t bytes, pb_region **home)
{
    *home = NULL;
    bytes = (bytes + 127) & ~(size_t)63;
    if (bytes >= PB_LARGE_PACK) {
        if (pb_filling == NULL || pb_filling->size - pb_filling->used < bytes) {
            size_t size = (bytes + PB_HUGE_PAGE - 1) & ~(size_t)(PB_HUGE_PAGE - 1);
            pb_region *fresh = pb_region_new(size > PB_REGION_BYTES ? size : PB_REGION_BYTES);
            if (fresh != NULL) {
                if (pb_filling != NULL) {
                    pb_region_release(pb_filling);
                }
                pb_filling = fresh;
            }
        }
        if (pb_filling != NULL && pb_filling->size - pb_filling->used >= bytes) {
            char *p = pb_filling->base + pb_filling->used;
            pb_filling->used += bytes;
            pb_filling->live++;
            *home = pb_filling;
            return p;
        }
    }
    return aligned_alloc(64, bytes);
}

/* The pages inside go back to the system at once, the addresses when the region is empty. */
static void pb_pack_free(void *p, size_t bytes, pb_region *home)
{
    if (home == NULL) {
        free(p);
        return;
    }
    char *end = (char *)p + ((bytes + 127) & ~(size_t)63);
    uintptr_t from = ((uintptr_t)p + 4095) & ~(uintptr_t)4095, to = (uintptr_t)end & ~(uintptr_t)4095;
    madvise((void *)from, to - from, MADV_DONTNEED);
    if (home == pb_filling) {
        if (home->live == 2) { /* it was the last pack: begin anew */
            home->used = 0;
        } else if (end == home->base + home->used) {
            home->used = (size_t)((char *)p - home->base);
        }
    }
    pb_region_release(home);
}
#endif
