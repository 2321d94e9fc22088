/* Ways over the strided elements of a tile: copies, offsets, indexed places. */
#ifndef PB_NEST_WALK_H
#define PB_NEST_WALK_H
#include "pb_nest_types.h"

/* Copy between a strided tile and packed elements; `fn` converts. Axes that are contiguous in the tile are merged. */
static void pb_walk(pb_load_fn fn, int storing, char *strided, char *packed, int32_t packed_item, int32_t d,
                    const int64_t *extents, const int64_t *strides) {
    int64_t n[d + 2], s[d + 2], at[d + 2];
    int32_t k = 0;
    for (int32_t j = 0; j < d; j++) {
        if (extents[j] == 1) continue;
        if (k && s[k - 1] == strides[j] * extents[j]) n[k - 1] *= extents[j], s[k - 1] = strides[j];
        else n[k] = extents[j], s[k++] = strides[j];
    }
    while (k < 2) { /* an axis of one row in front */
        for (int32_t j = k; j > 0; j--) n[j] = n[j - 1], s[j] = s[j - 1];
        n[0] = 1, s[0] = 0, k++;
    }
    int64_t rows = n[k - 2], row = s[k - 2], count = n[k - 1], step = s[k - 1];
    for (int32_t j = 0; j < k - 2; j++) at[j] = 0;
    for (;;) {
        if (storing) fn(strided, packed, rows, row, count, step);
        else fn(packed, strided, rows, row, count, step);
        packed += rows * count * packed_item;
        int32_t j = k - 3;
        for (; j >= 0; j--) {
            strided += s[j];
            if (++at[j] < n[j]) break;
            strided -= s[j] * n[j], at[j] = 0;
        }
        if (j < 0) return;
    }
}

/* The places of a tile's elements as byte offsets from its first one. */
static void pb_walk_offsets(int64_t *out, int32_t d, const int64_t *extents, const int64_t *strides) {
    int64_t n = 1;
    out[0] = 0;
    for (int32_t j = d - 1; j >= 0; j--) { /* grow from the inner axes outwards */
        for (int64_t i = 1; i < extents[j]; i++)
            for (int64_t k = 0; k < n; k++) out[i * n + k] = out[k] + i * strides[j];
        n *= extents[j];
    }
}

/* places[i] = offsets[i] + sum of wrapped index * stride; 0 when an index is out of bounds. */
static int pb_displace(const pb_nest *z, const int32_t *triples, int32_t count, const int64_t *offsets, int64_t *places,
                       int64_t n) {
    int bad = 0;
    for (int32_t k = 0; k < count; k++, triples += 3) {
        const pb_slot *slot = z->slots + triples[0];
        const int64_t *index = (const int64_t *)slot->p, *from = k ? places : offsets;
        int64_t extent = z->frame->r[triples[1]].i, stride = z->frame->r[triples[2]].i;
        if (slot->scalar) {
            int64_t v = *index + (*index < 0 ? extent : 0);
            bad |= (uint64_t)v >= (uint64_t)extent;
            for (int64_t i = 0; i < n; i++) places[i] = from[i] + v * stride;
        } else {
            for (int64_t i = 0; i < n; i++) {
                int64_t v = index[i] + (index[i] < 0 ? extent : 0);
                bad |= (uint64_t)v >= (uint64_t)extent;
                places[i] = from[i] + v * stride;
            }
        }
    }
    return !bad;
}
#endif
